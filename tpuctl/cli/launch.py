"""From the words after `run job` to a command: a reference model, a Python file, or a command as it is."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from tpuctl.cli import exit_codes
from tpuctl.cli.problems import Problem, did_you_mean
from tpuctl.zoo.catalogue import MODELS, Model

PLAIN_STEM = "job"


class Launch(NamedTuple):
    """What to run. ``stem`` begins the job's name; ``accelerator_type`` is what it asks for if the user doesn't."""

    command: list[str]
    stem: str
    accelerator_type: str = "v3-8"


def launch(words: Sequence[str], after_dashes: bool = False) -> Launch:
    """The command that ``words`` mean. Raises Problem if it could not start: nothing is provisioned then."""
    first, arguments = words[0], list(words[1:])
    if first.startswith("-") and not after_dashes:
        hint = "tpuctl's own options come first, then MODEL, FILE.py or `-- COMMAND` with its own; see --help"
        raise Problem(f"no such option: {first}", hint, exit_codes.USAGE)
    if first in MODELS:
        return _model(first, MODELS[first], arguments)
    if first.endswith(".py"):
        return _script(Path(first), arguments)
    if shutil.which(first) is None:
        raise _unknown(first, after_dashes)
    scripts = (Path(word) for word in arguments[:1] if first.startswith("python") and word.endswith(".py"))
    for script in scripts:
        _check_script(script)
    return Launch(list(words), _stem(Path(arguments[0] if arguments and arguments[0].endswith(".py") else first)))


def _model(name: str, model: Model, arguments: list[str]) -> Launch:
    _check_options(name, model, arguments)
    _need(model.packages, "train", f"{name} needs")
    return Launch([sys.executable, "-m", model.module, *arguments], name, model.accelerator_type)


def _check_options(name: str, model: Model, arguments: list[str]) -> None:
    """Read a model's options as its script will. Raises Problem."""
    parser: argparse.ArgumentParser = importlib.import_module(model.options_module).parser()
    parser.exit_on_error = False
    try:
        unknown = parser.parse_known_args(arguments)[1]
    except argparse.ArgumentError as error:
        hint = f"see `tpuctl run job -- {name} --help`"
        raise Problem(f"{name}: {error.argument_name}: {error.message}", hint, exit_codes.USAGE) from None
    if unknown:
        option = unknown[0].partition("=")[0]
        nearest = did_you_mean(option, model.options) or f"it takes {', '.join(model.options)}"
        raise Problem(f"{name} has no option {option}", nearest, exit_codes.USAGE)


def _script(script: Path, arguments: list[str]) -> Launch:
    _check_script(script)
    _need(("jax",), "jax", "a job on a slice needs")
    return Launch([sys.executable, str(script), *arguments], _stem(script))


def _check_script(script: Path) -> None:
    if not script.is_file():
        here = script.parent.glob("*.py") if script.parent.is_dir() else ()
        hint = did_you_mean(script.name, (path.name for path in here)) or f"the current folder is {Path.cwd()}"
        raise Problem(f"script not found: {script}", hint, exit_codes.NOT_FOUND)


def _need(packages: Sequence[str], extra: str, why: str) -> None:
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise Problem(f"{why} {_listed(missing)}", f"install what is missing: {_pip_install(extra)}")


def _listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _pip_install(extra: str) -> str:
    """How to add an extra to tpuctl: from the folder it was installed from, if it was one."""
    origin = json.loads(distribution("tpuctl").read_text("direct_url.json") or "{}")
    folder = unquote(urlsplit(origin.get("url", "")).path) if "dir_info" in origin else ""
    requirement = f"{folder or 'tpuctl'}[{extra}]"
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"{shlex.quote(sys.executable)} -m pip install {editable}{shlex.quote(requirement)}"


def _unknown(first: str, after_dashes: bool) -> Problem:
    if after_dashes:
        return Problem(f"command not found: {first}", "", exit_codes.NOT_FOUND)
    hint = did_you_mean(first, MODELS) or f"models: {', '.join(MODELS)}; or pass FILE.py, or `-- COMMAND ...`"
    return Problem(f"{first!r} is neither a model, a Python file nor a command", hint, exit_codes.NOT_FOUND)


def _stem(path: Path) -> str:
    """A valid beginning of a job's name, made from a file's name."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in path.stem.lower())
    stem = kept.strip("-0123456789")[:40].rstrip("-")
    return stem or PLAIN_STEM
