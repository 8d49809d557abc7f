"""A control plane with stand-ins for slice runtimes, as a process to be killed: `plane_process.py HOME`."""

from __future__ import annotations

import sys
from pathlib import Path

from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.server import serve

FAKE_RUNTIME = Path(__file__).parents[1] / "control" / "fake_runtime.py"

if __name__ == "__main__":
    serve(port=0, home=Home(Path(sys.argv[1])), executor=LocalExecutor((sys.executable, str(FAKE_RUNTIME))))
