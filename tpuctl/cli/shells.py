"""How does each shell set a variable for the programs it starts?"""

from __future__ import annotations

import os
import shlex
from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """Shells whose syntax we write; zsh and other POSIX shells take bash's."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


ShellOption = Annotated[Shell | None, typer.Option("--shell", help="Syntax to write; that of $SHELL by default.")]


def export(variable: str, value: str, shell: Shell) -> str:
    """One line of shell that sets and exports a variable."""
    match shell:
        case Shell.FISH:
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"set -gx {variable} '{escaped}';"
        case Shell.POWERSHELL:
            doubled = value.replace("'", "''")
            return f"$env:{variable} = '{doubled}'"
    return f"export {variable}={shlex.quote(value)}"


def to_use(command: str, shell: Shell) -> str:
    """What to type so that the shell does what the command prints."""
    return {
        Shell.FISH: f"{command} | source",
        Shell.POWERSHELL: f"{command} | Out-String | Invoke-Expression",
    }.get(shell, f'eval "$({command})"')


def current_shell() -> Shell:
    return Shell.FISH if os.environ.get("SHELL", "").endswith("/fish") else Shell.BASH
