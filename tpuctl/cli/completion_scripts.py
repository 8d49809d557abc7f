"""Write what Tab needs: the shells' scripts and the command tree: ``python -m tpuctl.cli.completion_scripts [FOLDER]``.

The scripts are those of ``tpuctl --show-completion``: thin hooks that ask tpuctl itself what fits.
"""

from __future__ import annotations

import sys
from pathlib import Path

from typer._completion_shared import get_completion_script

from tpuctl.cli import command_tree
from tpuctl.cli.app import app
from tpuctl.cli.tab import VARIABLE

FILE_NAMES = {"bash": "tpuctl.bash", "zsh": "_tpuctl", "fish": "tpuctl.fish"}


def script(shell: str) -> str:
    """The completion script of "bash", "zsh" or "fish"."""
    text: str = get_completion_script(prog_name="tpuctl", complete_var=VARIABLE, shell=shell)
    return text.strip() + "\n"


def write(folder: Path) -> None:
    """Write the scripts into ``folder``, and the tree to its place in this package."""
    command_tree.PATH.write_text(command_tree.dump(app))
    folder.mkdir(parents=True, exist_ok=True)
    for shell, name in FILE_NAMES.items():
        (folder / name).write_text(script(shell))


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "completions"))
