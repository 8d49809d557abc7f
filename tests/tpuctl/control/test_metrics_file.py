"""Whatever a job writes to its metrics file, the rows of numbers in it are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuctl.control.metrics_file import MetricsFile


@pytest.mark.parametrize(
    "line",
    [b"no JSON", b"[1]", b'{"loss": 1' + b"0" * 400 + b"}", b'{"loss": ' + b"1" * 5000 + b"}", b"[" * 200_000, b"\xff"],
    ids=["text", "list", "huge integer", "integer too long to read", "deep nesting", "not UTF-8"],
)
def test_a_line_that_is_no_row_of_numbers_is_passed_over(tmp_path: Path, line: bytes) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.path.write_bytes(line + b'\n{"loss": 0.5}\n')
    assert file.read_on() == [{"loss": 0.5}]
    assert file.last == {"loss": 0.5}
