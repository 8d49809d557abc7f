"""tpuctl budget: what a project may spend in a month, at list prices."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli.options import Output
from tpuctl.cli.output import Column, Format, show_list
from tpuctl.cli.units import dollars

app = typer.Typer(
    help="What a project may spend in a month, at Google's list prices; what has none that is known is free.",
    no_args_is_help=True,
)

Amount = Annotated[float, typer.Argument(metavar="DOLLARS", min=0.01, help="A month.")]
Stop = Annotated[bool, typer.Option("--stop", help="Once it is spent, refuse new slices, and preempt those there are.")]
Project = Annotated[str | None, typer.Option("--project", metavar="PROJECT", help="Another than yours.")]

COLUMNS = (
    Column("PROJECT", lambda row: row["project"]),
    Column("A MONTH", lambda row: dollars(row["amount"])),
    Column("SPENT", lambda row: f"{dollars(row['spent'])} ({row['spent'] / row['amount']:.0%})"),
    Column("WHEN SPENT", lambda row: "stop" if row["stop"] else "warn"),
)


@app.command("set")
def set_budget(amount: Amount, stop: Stop = False, project: Project = None) -> None:
    """Set a project's budget; `tpuctl status` warns from 80%. Needs an admin of all projects."""
    from tpuctl.api.names import default_project
    from tpuctl.api.usage import Budget
    from tpuctl.cli import terminal
    from tpuctl.cli.plane import connect

    whose = project or default_project()
    with connect() as client:
        made = client.set_budget(Budget(project=whose, amount=amount, stop=stop))
    terminal.say(f"Project {whose} may spend {dollars(amount)} a month; {dollars(made.spent)} are spent")


@app.command("list")
def list_budget(project: Project = None, output: Output = Format.TABLE) -> None:
    """Show the project's budget, and what of it is spent this month."""
    from tpuctl.cli.plane import connect

    with connect() as client:
        found = [one.to_json() for one in client.list_budgets(project)]
    rows = [row | {"name": row["project"]} for row in found] if output is Format.NAME else found
    show_list(rows, COLUMNS, output, "No budget: set one with tpuctl budget set DOLLARS.")
