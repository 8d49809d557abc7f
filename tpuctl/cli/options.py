"""Options and arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.api.names import check_id
from tpuctl.cli import complete
from tpuctl.cli.output import Format


def valid_slice(name: str | None) -> str | None:
    """A slice's name as it came. Raises InvalidArgument for one that no slice can have."""
    return name if name is None else check_id("slice", name)


def valid_slices(names: list[str]) -> list[str]:
    return [check_id("slice", name) for name in names]


def valid_job(name: str | None) -> str | None:
    """A job's name as it came. Raises InvalidArgument for one that no job can have."""
    return name if name is None else check_id("job", name)


Output = Annotated[Format, typer.Option("--output", "-o", help="How to print what was found.")]
Zone = Annotated[
    str | None,
    typer.Option("--zone", metavar="ZONE", help="Zone of the slice; TPUCTL_ZONE, or europe-west4-a."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done, or return at once.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it anew every second, until Ctrl-C.")]
SliceName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the slice.", autocompletion=complete.slices, callback=valid_slice),
]
JobName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the job.", autocompletion=complete.jobs, callback=valid_job)
]
Slices = Annotated[
    int, typer.Option("--slices", metavar="K", min=1, help="Join K such slices over the data-centre network.")
]

Spot = Annotated[bool, typer.Option("--spot", help="May be preempted by those that may not.")]
Reserved = Annotated[bool, typer.Option("--reserved", help="From any reservation of yours.")]
Reservation = Annotated[str | None, typer.Option("--reservation", metavar="NAME", help="From this reservation.")]
Contiguous = Annotated[
    bool, typer.Option("--contiguous", help="One box of chips, also where switches could join any cubes.")
]
