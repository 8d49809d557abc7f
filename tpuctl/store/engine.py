"""One SQLite file: opened in WAL mode, private, and with its troubles told as ApiError."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn

from tpuctl.api.errors import ApiError, FailedPrecondition, Internal, ResourceExhausted, Unavailable
from tpuctl.store.tables import ADDED, INDEXES, RENAMED, VERSION, metadata

PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",  # a commit survives the death of the process; a power cut may take the last ones
    "PRAGMA busy_timeout=5000",
    "PRAGMA foreign_keys=ON",
)


def open_engine(path: Path) -> Engine:
    """The database in ``path``, made (mode 0600) if it is not there. Raises ApiError."""
    with translated(path):
        _make_private(path)
        engine = create_engine(f"sqlite:///{path}", json_deserializer=_loads)
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin_immediate)
        with engine.connect() as connection:
            version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        if version > VERSION:
            raise FailedPrecondition(f"{path} was written by a newer tpuctl (version {version}); use that one")
        if version < VERSION:
            with engine.begin() as connection:
                if version:
                    _bring_up(connection, version)
                metadata.create_all(connection)
                for index in INDEXES:
                    index.create(connection, checkfirst=True)
                connection.exec_driver_sql(f"PRAGMA user_version={VERSION}")
    return engine


@lru_cache(maxsize=4096)
def _loads(text: str) -> Any:
    """A stored value (a loss may be NaN); many rows have the same. Rows are not changed in place, nor is it."""
    return json.loads(text)


def _bring_up(connection: Connection, version: int) -> None:
    """Bring the tables of an earlier version up to this one's; rows that are there get the new columns' defaults."""
    there = set(inspect(connection).get_table_names())
    for later in range(version + 1, VERSION + 1):
        for before, column in RENAMED.get(later, ()):
            if column.table.name in there:
                connection.exec_driver_sql(f"ALTER TABLE {column.table.name} RENAME COLUMN {before} TO {column.name}")
        for column in ADDED.get(later, ()):
            if column.table.name in there:
                definition = CreateColumn(column).compile(connection)
                connection.exec_driver_sql(f"ALTER TABLE {column.table.name} ADD COLUMN {definition}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raises what SQLite complains of as ApiError."""
    try:
        yield
    except DBAPIError as error:
        raise _api_error(path, error.orig) from error


def _api_error(path: Path, cause: BaseException | None) -> ApiError:
    code = getattr(cause, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    match primary:
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return ResourceExhausted(
                f"the disk of {path.parent} is full or failing ({cause}); nothing was changed. Free space and try again"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return FailedPrecondition(f"{path} is damaged ({cause}); move it away to start with an empty control plane")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable(f"{path} is locked by another program ({cause}); try again")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return FailedPrecondition(f"cannot write {path} ({cause}); check its owner and permissions")
    return Internal(f"{path}: {cause}")


def _make_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise FailedPrecondition(f"cannot use {path}: {error.strerror}") from error


def _prepare(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_immediate, not by the driver
    for pragma in PRAGMAS:
        connection.execute(pragma)


def _begin_immediate(connection: Any) -> None:
    if connection.get_execution_options().get("read"):
        connection.exec_driver_sql("BEGIN")
    else:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
