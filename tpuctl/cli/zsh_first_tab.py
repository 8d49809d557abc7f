"""What Typer's script for zsh lacks: zsh runs it as a function at the first Tab, and then it has to complete, too."""

from __future__ import annotations

from typer import _completion_shared

SCRIPTS = _completion_shared._completion_scripts
LINES = """
# zsh runs this file as a function at the first Tab: then it has to complete, too.
if [[ $funcstack[1] == _tpuctl ]]; then _tpuctl_completion "$@"; fi
"""


def add() -> None:
    """Have ``--install-completion`` and ``--show-completion`` write a script that answers the first Tab."""
    if not SCRIPTS["zsh"].endswith(LINES):
        SCRIPTS["zsh"] = SCRIPTS["zsh"].rstrip() + "\n" + LINES
