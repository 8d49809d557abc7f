"""A pytest plugin that writes each test's outcome to a file, one JSON line as it starts and one as it ends.

What has started and not ended when the process is gone is the test that took it down. Tests named in
``CONFORMANCE_SKIP``, a file of node ids, are left out: that is how a run goes on after such an end.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest


class Recorder:
    """Appends outcomes to a file, unbuffered."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._started = 0.0
        self._outcome: dict[str, Any] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started = time.perf_counter()
        self._outcome = {"outcome": "passed", "reason": ""}
        self._write(test=nodeid, outcome="started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and self._outcome["outcome"] == "passed":
            self._outcome = {"outcome": "skipped", "reason": str(report.longrepr)[-200:]}
        elif report.failed:
            self._outcome = {"outcome": "failed", "reason": report.longreprtext[-4000:]}

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write(test=nodeid, seconds=round(time.perf_counter() - self._started, 3), **self._outcome)

    def pytest_sessionfinish(self) -> None:
        self._write(outcome="complete")

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(Path(os.environ["CONFORMANCE_RECORD"])))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = set(Path(os.environ["CONFORMANCE_SKIP"]).read_text().splitlines())
    left_out = [item for item in items if item.nodeid in skip]
    items[:] = [item for item in items if item.nodeid not in skip]
    config.hook.pytest_deselected(items=left_out)
