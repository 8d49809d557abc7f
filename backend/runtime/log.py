"""Where does the runtime say what happened? JSON lines in its directory's runtime.log."""

from __future__ import annotations

import faulthandler
import json
import logging
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record as one JSON object: time, level, logger, message, whatever came as ``extra``, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to(path: Path) -> None:
    """Send the process's log to ``path``, which only its owner can read.

    Python stacks go to the same name with suffix .crash: when the process crashes, and on SIGUSR1.
    """
    path.touch(mode=0o600)
    handler = logging.FileHandler(path)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    threading.excepthook = _log_thread_exception
    crash_path = path.with_suffix(".crash")
    crash_path.touch(mode=0o600)
    crashes = crash_path.open("w")
    faulthandler.enable(crashes)
    faulthandler.register(signal.SIGUSR1, crashes)


def _log_thread_exception(arguments: threading.ExceptHookArgs) -> None:
    if arguments.exc_value is not None:
        logging.getLogger(__name__).error("a thread ended", exc_info=arguments.exc_value)
