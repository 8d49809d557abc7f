"""How does a process keep its log? One JSON object a line, in a file for its owner only that starts anew when full."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

MAX_LOG_BYTES = 16 << 20
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """time, level, logger, message, whatever ``extra`` the caller gave, and the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


class PrivateFile(RotatingFileHandler):
    """Each file it makes has mode 0600."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return open(descriptor, self.mode, encoding=self.encoding, errors=self.errors)  # type: ignore[return-value]


def log_to(path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
    """Send all logging to ``path`` (mode 0600); one older file is kept, as PATH.1. Raises OSError."""
    handler = PrivateFile(path, maxBytes=max_bytes, backupCount=1)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.raiseExceptions = False
