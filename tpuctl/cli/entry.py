"""The process's outermost boundary: run the command line, and say in one or two lines what went wrong."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import NamedTuple

import typer

from tpuctl.cli import exit_codes, resource_errors
from tpuctl.cli.problems import Problem

DEBUG = "TPUCTL_DEBUG"


class Failure(NamedTuple):
    message: str
    hint: str
    exit_code: int


def run(arguments: list[str] | None = None) -> int:
    """Run ``tpuctl`` with ``arguments`` (the process's own by default) and return its exit code."""
    _mend_streams()
    from tpuctl.cli.app import app

    try:
        _check_text(sys.argv[1:] if arguments is None else arguments)
        status = app(arguments, prog_name="tpuctl", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("\ntpuctl: interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        return exit_codes.FAILED
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        if (help_text := _asked_for_help(error)) is not None:
            print(help_text, file=sys.stderr)
            return exit_codes.USAGE
        failure = explain(error)
        print(f"tpuctl: {failure.message}", file=sys.stderr)
        if failure.hint:
            print(f"  {failure.hint}", file=sys.stderr)
        return failure.exit_code
    return status if isinstance(status, int) else exit_codes.DONE


def _mend_streams() -> None:
    """Have three streams that take every text: nothing stands for closed ones, "?" for letters that they can't show."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - it stays open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _check_text(arguments: list[str]) -> None:
    """Raise Problem for an argument that is not text: requests, which are UTF-8, can't carry it."""
    for argument in arguments:
        if not _is_text(argument):
            shown = os.fsencode(argument).decode(errors="backslashreplace")
            raise Problem(f"the name or argument '{shown}' is not valid UTF-8", "", exit_codes.USAGE)


def _is_text(argument: str) -> bool:
    """Whether it holds no surrogates, which stand for bytes that are not UTF-8."""
    return not any("\ud800" <= letter <= "\udfff" for letter in argument)


def explain(error: Exception) -> Failure:
    """What to tell the user about an exception, and what to exit with."""
    from tpuctl.api.errors import AlreadyExists, ApiError, NotFound, ResourceExhausted

    match error:
        case Problem():
            failure = Failure(error.message, error.hint, error.exit_code)
        case typer.TyperException():
            failure = _of_usage(error)
        case OSError(errno=errno.ENOSPC):
            failure = Failure(f"the disk is full: {error}", "free some space and try again", exit_codes.FAILED)
        case OSError():
            failure = Failure(str(error), "", exit_codes.FAILED)
        case NotFound():
            failure = Failure(*resource_errors.explain_missing(error), exit_codes.NOT_FOUND)
        case AlreadyExists():
            failure = Failure(*resource_errors.explain_taken(error), exit_codes.FAILED)
        case ResourceExhausted():
            failure = Failure(*resource_errors.explain_exhausted(error), exit_codes.of_rpc_code(error.code))
        case ApiError():
            message, _, hint = error.message.partition("\n")
            failure = Failure(message, hint, exit_codes.of_rpc_code(error.code))
        case _:
            hint = f"this is a bug in tpuctl; {DEBUG}=1 shows where it comes from"
            failure = Failure(f"unexpected {type(error).__name__}: {error}", hint, exit_codes.FAILED)
    return failure


def _asked_for_help(error: Exception) -> str | None:
    """The help text, if the error is that a group of commands was called without one."""
    context = getattr(error, "ctx", None)
    return str(error) if context is not None and str(error) == context.get_help() else None


def _of_usage(error: typer.TyperException) -> Failure:
    message = error.format_message().strip().rstrip(".").replace("Value error, ", "")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    hint = f"see `{context.command_path} --help`" if context is not None else ""
    return Failure(message, hint, error.exit_code)


def _silence(stream: object) -> None:
    """Keep the interpreter from complaining, at its end, that nobody reads our output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
