"""What Tab offers: read from the command tree, with names from the running control plane, without importing Typer.

It speaks the protocol of Typer's own shell hooks (tpuctl --show-completion), which ask through the environment.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tpuctl.cli.command_tree import Command, Source

VARIABLE = "_TPUCTL_COMPLETE"
PREFIX = "complete_"
TREE = Path(__file__).with_name("command_tree.json")


class Offer(NamedTuple):
    """Something to complete to, with what it means."""

    value: str
    help: str = ""


def answer() -> tuple[str, int] | None:
    """What to print and to exit with for the shell that asks; None if no shell does, or one Typer has to answer."""
    shell = os.environ.get(VARIABLE, "").removeprefix(PREFIX)
    if shell == "bash":
        words = _split(os.environ.get("COMP_WORDS", ""))
        at = int(os.environ.get("COMP_CWORD", len(words)))
        found = offers(words[1:at], words[at] if at < len(words) else "")
        return "\n".join(offer.value for offer in found), 0
    if shell in ("zsh", "fish"):
        line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = _split(line)[1:]
        last = words.pop() if words and not line.endswith(" ") else ""
        return (_zsh if shell == "zsh" else _fish)(offers(words, last))
    return None


def offers(words: Sequence[str], last: str) -> list[Offer]:
    """What can follow ``words`` (without the program's name) where ``last`` is begun."""
    command: Command = json.loads(TREE.read_text())
    awaited: Source | None = None
    has_model = False
    for word in words:
        if word == "--":
            return []
        options, commands = command.get("options", {}), command.get("commands", {})
        if awaited is not None:
            awaited = None
        elif word in options:
            awaited = options[word]
        elif command.get("argument") == "models" and not word.startswith("-"):
            if not (has_model := has_model or _is_model(word)):
                return []  # a file or a command: what follows is its own
        else:
            command = commands.get(word, command)
    if awaited is not None:
        return _of_source(awaited, last)
    if last.startswith("-"):
        return [Offer(option) for option in sorted(command.get("options", {})) if option.startswith(last)]
    if "commands" in command:
        known = command["commands"].items()
        return [Offer(name, found["help"]) for name, found in sorted(known) if name.startswith(last)]
    return _of_source(command.get("argument", ""), last)


def _is_model(word: str) -> bool:
    from tpuctl.zoo.catalogue import MODELS

    return word in MODELS


def _of_source(source: Source, last: str) -> list[Offer]:
    from tpuctl.cli import complete

    if isinstance(source, list):
        return [Offer(value) for value in source if value.startswith(last)]
    return [Offer(name) for name in complete.SOURCES[source](last)] if source else []


def _zsh(found: Sequence[Offer]) -> tuple[str, int]:
    """Code for zsh to run: files, or the offers with their meanings."""
    if not found:
        return "_files", 0
    described = (f'"{_escaped(offer.value)}"' + (f':"{_escaped(offer.help)}"' if offer.help else "") for offer in found)
    return "_arguments '*: :((" + "\n".join(described) + "))'", 0


def _fish(found: Sequence[Offer]) -> tuple[str, int]:
    """Lines of value and meaning; or, when fish asks whether there are any, an exit code that says so."""
    if os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", 0 if found else 1
    return "\n".join(f"{offer.value}\t{offer.help}" if offer.help else offer.value for offer in found), 0


def _escaped(text: str) -> str:
    for letter, written in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", "\\\\:")):
        text = text.replace(letter, written)
    return text


def _split(line: str) -> list[str]:
    """The words of a line that may end inside quotes."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
