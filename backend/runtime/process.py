"""How does a slice runtime's process begin and end? Its arguments, its signals, and what it says when it cannot run."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from backend.errors import FailedPrecondition, InvalidArgument
from backend.hardware import InvalidTopology, UnknownAcceleratorType
from backend.runtime.announcement import SOCKET, announce, announce_failure, withdraw
from backend.runtime.log import log_in
from backend.runtime.server import Server
from backend.runtime.slice import Slice

_CANNOT_LISTEN = 4
_BAD_ARGUMENTS = 2


def main(arguments: list[str] | None = None) -> int:
    """Run a slice until it is told to end; the process's exit status."""
    options = _parser().parse_args(arguments)
    directory: Path = options.directory.absolute()
    told_to_end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_end.set())
    try:
        log_in(directory)
        token = (directory / "token").read_text().strip()
        chips = Slice(options.name, options.type, topology=options.topology, slices=options.slices)
    except (OSError, UnknownAcceleratorType, InvalidTopology) as error:
        return _give_up(directory, InvalidArgument.code, str(error), _BAD_ARGUMENTS)
    if not token:
        return _give_up(directory, InvalidArgument.code, f"{directory / 'token'} is empty", _BAD_ARGUMENTS)
    _fork_partitioner()
    try:
        server = Server(chips, directory / SOCKET, options.host, options.port, token)
    except OSError as error:
        message = (
            f"cannot listen on {options.host}:{options.port}: {error.strerror}; end what uses it or choose another"
        )
        return _give_up(directory, FailedPrecondition.code, message, _CANNOT_LISTEN)
    server.start()
    announce(directory, options.host, server.port, options.type, options.name)
    logging.info("slice is up", extra={"slice": options.name, "type": options.type, "pid": os.getpid()})
    threading.Thread(target=chips.machine.warm_up, name="warm-up", daemon=True).start()
    told_to_end.wait()
    server.close()
    withdraw(directory)
    logging.info("slice has ended", extra={"slice": options.name})
    return 0


def _fork_partitioner() -> None:
    """A copy of this process, while it has no other thread, takes less memory than another process."""
    try:
        from backend.compiler.partition import PARTITIONER
    except ModuleNotFoundError:  # the base install compiles nothing
        return
    PARTITIONER.fork()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m backend.runtime", description="Run the chips of one slice.")
    parser.add_argument("--directory", type=Path, required=True, help="where the socket, token and log lie")
    parser.add_argument("--name", required=True)
    parser.add_argument("--type", required=True, help="accelerator type, such as v3-8")
    parser.add_argument("--topology", help="chips along each axis, such as 4x4x8, if not the type's default")
    parser.add_argument("--slices", type=_positive, default=1, help="slices of this type, joined over the network")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8470)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def _give_up(directory: Path, code: int, message: str, status: int) -> int:
    print(message, file=sys.stderr)
    try:
        announce_failure(directory, code, message)
    except OSError as error:
        print(f"cannot write to {directory}: {error.strerror}", file=sys.stderr)
    return status
