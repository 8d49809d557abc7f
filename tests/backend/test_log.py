"""A process's log: JSON lines, private also after it was begun anew, and never larger than two files."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.log import log_to


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    root, raising = logging.getLogger(), logging.raiseExceptions
    handlers, level = list(root.handlers), root.level
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising


def test_every_file_is_private_and_only_one_older_one_is_kept(tmp_path: Path) -> None:
    log_to(tmp_path / "a.log", max_bytes=1000)
    for number in range(100):
        logging.info("line %d", number)
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["a.log", "a.log.1"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert all(path.stat().st_size <= 1000 for path in files)
    assert json.loads(files[0].read_text().splitlines()[-1])["message"] == "line 99"


def test_a_line_has_what_the_caller_gave_and_the_trace(tmp_path: Path) -> None:
    log_to(tmp_path / "a.log")
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("some").exception("failed", extra={"slice": "a"})
    entry = json.loads((tmp_path / "a.log").read_text())
    assert (entry["level"], entry["logger"], entry["message"], entry["slice"]) == ("ERROR", "some", "failed", "a")
    assert entry["trace"].endswith("ValueError: no")
