"""Options and arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import complete
from tpuctl.cli.output import Format

Output = Annotated[Format, typer.Option("--output", "-o", help="How to print what was found.")]
Zone = Annotated[
    str | None,
    typer.Option("--zone", metavar="ZONE", help="Zone of the slice; TPUCTL_ZONE, or europe-west4-a."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or return at once.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it anew every second, until Ctrl-C.")]
SliceName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the slice.", autocompletion=complete.slices)]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=complete.jobs)]
