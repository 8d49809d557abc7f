"""tpuctl fault api: what the Cloud TPU API does to its clients on a bad day, to see whether they survive it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from pydantic.alias_generators import to_camel

from tpuctl.api.fault_kinds import KINDS, FaultKind
from tpuctl.cli import complete
from tpuctl.cli.options import Output
from tpuctl.cli.output import Column, Format, show_list

app = typer.Typer(
    help="Let the Cloud TPU API fail as the real one does: no capacity, quota, preemption, slow operations.",
    no_args_is_help=True,
)

COMMON = {
    "name": (
        str,
        "*",
        typer.Option(metavar="PATTERN", help="Strike only resources of such names: train-*, or projects/p/*."),
    ),
    "count": (int | None, None, typer.Option(metavar="N", min=1, help="Strike N times, and never again.")),
    "probability": (
        float,
        1.0,
        typer.Option(metavar="P", min=0, max=1, help="Strike with this probability; drawn with --seed."),
    ),
    "seed": (int, 0, typer.Option(metavar="S", help="The same seed strikes the same ones of a sequence.")),
}
OWN = {
    "method": (
        str | None,
        None,
        typer.Option(metavar="METHOD", help="Only this method of the API, such as nodes.get, or nodes.*."),
    ),
    "after": (
        float | None,
        None,
        typer.Option(metavar="SECONDS", min=0, help="So long after the node is READY; at once by default."),
    ),
    "at_step": (
        int | None,
        None,
        typer.Option(metavar="N", min=1, help="When the job on the node has logged step N; once by default."),
    ),
    "seconds": (
        float | None,
        None,
        typer.Option(metavar="SECONDS", min=0, help="For how long."),
    ),
    "limit": (int | None, None, typer.Option(metavar="N", min=0, help="So many a minute are let through (10).")),
}
"""Options by the setting's name: its type, its default, and what it is."""


def _how_often(row: dict[str, Any]) -> str:
    chance = row["probability"]
    often = "every time" if chance == 1 else f"{chance:.0%} (seed {row['seed']})"
    return often if row.get("count") is None else f"{often}, {row['count']} at most"


def _settings(row: dict[str, Any]) -> str:
    keys = {name: to_camel(name) for name in OWN}
    return " ".join(
        f"{name.replace('_', '-')}={row[key]:g}" if name != "method" else row[key]
        for name, key in keys.items()
        if key in row
    )


COLUMNS = (
    Column("ID", lambda row: row["id"]),
    Column("NAME", lambda row: row["name"]),
    Column("HOW OFTEN", _how_often),
    Column("SETTINGS", _settings),
    Column("SEEN", lambda row: str(row["seen"])),
    Column("STRUCK", lambda row: str(row["struck"])),
)


@app.command("list")
def list_faults(output: Output = Format.TABLE) -> None:
    """List the faults that the API has now."""
    from tpuctl.cli.plane import connect

    with connect() as client:
        found = [fault.to_json() for fault in client.list_api_faults()]
    rows = [row | {"name": row["id"]} for row in found] if output is Format.NAME else found
    show_list(rows, COLUMNS, output, "The API has no faults.")


@app.command("clear")
def clear_faults(
    fault: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The fault's id; all by default.", autocompletion=complete.api_faults),
    ] = None,
) -> None:
    """End a fault, or all: what it holds up goes on, and what it has yet to do is not done."""
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    with connect() as client:
        client.clear_api_faults(fault)
    terminal.say("The API has no faults" if fault is None else f"Fault {fault} has ended")


def _add(kind: FaultKind) -> Callable[..., None]:
    """The command that adds a fault of the kind, with the options that mean something to it."""

    def add(**settings: Any) -> None:
        from tpuctl.api.api_faults import ApiFault
        from tpuctl.cli import terminal
        from tpuctl.cli.plane import connect

        with connect() as client:
            made = client.add_api_fault(ApiFault.model_construct(kind=kind.name, **settings))
        terminal.say(f"Fault {made.id}: {_how_often(made.to_json())}")
        terminal.say(f"  to end that: tpuctl fault api clear {made.id}")

    options = COMMON | {name: OWN[name] for name in kind.settings}
    add.__doc__ = kind.help
    add.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, option]
            )
            for name, (annotation, default, option) in options.items()
        ]
    )
    add.__annotations__ = {name: Annotated[annotation, option] for name, (annotation, _, option) in options.items()}
    return add


for _kind in KINDS.values():
    app.command(_kind.name)(_add(_kind))
