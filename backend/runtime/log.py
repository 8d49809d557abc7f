"""Where does the runtime say what happened? In its directory's runtime.log and, when it crashes, runtime.crash."""

from __future__ import annotations

import faulthandler
import logging
import signal
import threading
from pathlib import Path

from backend.log import log_to


def log_in(directory: Path) -> None:
    """Keep the process's log in ``directory``, in files that only their owner can read. Raises OSError.

    Python stacks go to runtime.crash: when the process crashes, and on SIGUSR1.
    """
    log_to(directory / "runtime.log")
    threading.excepthook = _log_thread_exception
    crash_path = directory / "runtime.crash"
    crash_path.touch(mode=0o600)
    crashes = crash_path.open("w")
    faulthandler.enable(crashes)
    faulthandler.register(signal.SIGUSR1, crashes)


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        logging.getLogger(__name__).error("a thread ended", exc_info=arguments.exc_value)
