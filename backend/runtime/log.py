"""Where does the runtime say what happened? JSON lines in its directory's runtime.log."""

from __future__ import annotations

import json
import logging
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
    """Send the process's log to ``path``, which only its owner can read."""
    path.touch(mode=0o600)
    handler = logging.FileHandler(path)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
