"""The command tree as plain data: what Tab may offer where. It is kept in command_tree.json: Tab can't wait for Typer.

``python -m tpuctl.cli.completion_scripts`` writes it; a test keeps it in step with the commands.
"""

from __future__ import annotations

import inspect
import json
from enum import Enum
from pathlib import Path
from typing import Any, NotRequired, TypedDict, get_args, get_origin

import typer
from typer.models import ArgumentInfo, OptionInfo

PATH = Path(__file__).with_suffix(".json")
NO_CHOICES = ""


class Command(TypedDict):
    """One command or group. A value's source is the name of a function in ``complete``, or a list of what it can be.

    ``options`` maps each spelling to the source of its value: None for a flag, "" where nothing can be offered.
    """

    help: str
    commands: NotRequired[dict[str, Command]]
    options: NotRequired[dict[str, Source | None]]
    argument: NotRequired[Source]


Source = str | list[str]


def load() -> Command:
    """The tree as it was written."""
    tree: Command = json.loads(PATH.read_text())
    return tree


def build(app: typer.Typer) -> Command:
    """The tree of an app."""
    commands = {
        info.name or info.callback.__name__: _command(info.callback)
        for info in app.registered_commands
        if info.callback
    }
    groups = {
        info.name: build(info.typer_instance) for info in app.registered_groups if info.name and info.typer_instance
    }
    root = app.registered_callback
    own: dict[str, Source | None] = _command(root.callback)["options"] if root else {"--help": None}
    return {"help": app.info.help or "", "commands": commands | groups, "options": own}


def dump(app: typer.Typer) -> str:
    return json.dumps(build(app), indent=1, sort_keys=True) + "\n"


def _command(callback: Any) -> Command:
    """A command's options and argument, read from the annotations of its function."""
    found: Command = {"help": (inspect.getdoc(callback) or "").partition("\n")[0], "options": {"--help": None}}
    for parameter in inspect.signature(callback, eval_str=True).parameters.values():
        if get_origin(parameter.annotation) is None or not get_args(parameter.annotation):
            continue
        kind, *metadata = get_args(parameter.annotation)
        for info in metadata:
            if isinstance(info, ArgumentInfo):
                found["argument"] = _source(kind, info)
            elif isinstance(info, OptionInfo):
                found["options"] |= dict.fromkeys(_spellings(parameter.name, info), _value(kind, info))
    return found


def _spellings(name: str, info: OptionInfo) -> list[str]:
    """How an option can be written. In Annotated, Typer takes the first spelling as ``default``."""
    first = (info.default,) if isinstance(info.default, str) else ()
    declared = (*first, *(info.param_decls or ())) or (f"--{name.replace('_', '-')}",)
    return [spelling for declaration in declared for spelling in declaration.split("/")]


def _value(kind: Any, info: OptionInfo) -> Source | None:
    return None if kind is bool else _source(kind, info)


def _source(kind: Any, info: ArgumentInfo | OptionInfo) -> Source:
    for candidate in (kind, *get_args(kind)):
        if isinstance(candidate, type) and issubclass(candidate, Enum):
            return [str(member.value) for member in candidate]
    return info.autocompletion.__name__ if info.autocompletion else NO_CHOICES
