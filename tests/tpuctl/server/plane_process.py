"""A control plane with stand-ins for slice runtimes, as a process to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.server import serve

FAKE_RUNTIME = Path(__file__).parents[1] / "control" / "fake_runtime.py"


def run(home: Path) -> None:
    serve(port=0, home=Home(home), executor=LocalExecutor((sys.executable, str(FAKE_RUNTIME))))
