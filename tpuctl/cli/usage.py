"""tpuctl usage: chip-hours, and what they would cost at Google's."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from tpuctl.api.usage import UsageBy
from tpuctl.cli import exit_codes
from tpuctl.cli.options import Output
from tpuctl.cli.output import Column, Format, show_data, show_list
from tpuctl.cli.problems import Problem
from tpuctl.cli.units import UNKNOWN, dollars

By = Annotated[UsageBy, typer.Option("--by", help="A row for each of these.")]
Since = Annotated[str, typer.Option("--since", metavar="DURATION", help="So long ago, such as 12h or 30d.")]
UNITS = {"m": 60, "h": 3600, "d": 86400}


COLUMNS = (
    Column("NAME", lambda row: row["name"]),
    Column("GENERATION", lambda row: row["generation"]),
    Column("KIND", lambda row: row["kind"]),
    Column("CHIP-HOURS", lambda row: f"{row['chipHours']:,.3f}"),
    Column("COST", lambda row: dollars(row.get("cost"))),
)
PRICES = (
    Column("GENERATION", lambda row: row["generation"]),
    Column("SLICES", lambda row: row.get("size") or "all"),
    Column("WHERE", lambda row: f"{row['where']}*" if row.get("where") else "all"),
    Column("ON DEMAND", lambda row: _rate(row.get("on-demand"))),
    Column("SPOT", lambda row: _rate(row.get("spot"))),
)


def _rate(price: float | None) -> str:
    return UNKNOWN if price is None else f"${price:.4f}"


def usage(by: By = UsageBy.SLICE, since: Since = "30d", output: Output = Format.TABLE) -> None:
    """Chip-hours of slices that were READY, and what they would have cost at Google's list prices."""
    from tpuctl.api.names import default_project
    from tpuctl.cli import terminal
    from tpuctl.cli.reader import read

    start = time.time() - _seconds(since)
    found: dict[str, Any] = read(f"/tpuctl/v1/projects/{default_project()}/usage?by={by}&since={int(start)}")
    rows = found.get("rows") or []
    if output.is_data:
        show_data(rows, output)
        return
    show_list(rows, COLUMNS, output, f"Nothing was used in the last {since}.")
    costs = [row["cost"] for row in rows if row.get("cost") is not None]
    if rows:
        unpriced = "" if len(costs) == len(rows) else "; - has no published price that is known"
        terminal.say(f"{dollars(sum(costs))} in the last {since}, at list prices (tpuctl list prices){unpriced}")


def prices(output: Output = Format.TABLE) -> None:
    """List what a chip costs by the hour at Google's, as far as that is known."""
    from tpuctl.cli import terminal
    from tpuctl.control.prices import PRICES as KNOWN
    from tpuctl.control.prices import SOURCE

    rows = [one.to_json() for one in KNOWN]
    if output.is_data and output is not Format.NAME:
        show_data(rows, output)
        return
    joined: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["generation"], row.get("size") or "", row.get("where") or ""
        joined.setdefault(key, {**row, "name": "-".join(filter(None, key)).replace(" ", "-")})[row["kind"]] = row[
            "dollars"
        ]
    show_list(list(joined.values()), PRICES, output, "")
    if output is not Format.NAME:
        terminal.say(f"US dollars for a chip and an hour: {SOURCE}")


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not number.isdigit() or int(number) > 10_000:
        raise Problem(f"{text!r} is no duration", "write it as 90m, 12h or 30d", exit_codes.USAGE)
    return float(number) * UNITS[unit]
