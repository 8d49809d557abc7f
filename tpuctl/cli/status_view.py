"""How `tpuctl status` looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tpuctl.api.names import shape_text
from tpuctl.cli import training
from tpuctl.cli.bars import bar, share
from tpuctl.cli.output import STATE_COLOURS
from tpuctl.cli.units import UNKNOWN, bytes_text, seconds_text, share_text
from tpuctl.cli.waits import told

Resource = dict[str, Any]

LATEST_JOBS = 10
LIVE = ("QUEUED", "RUNNING")
ROOMY = 110
NEARLY_SPENT = 0.8
CLOCKS = "Device time and MXU busy are simulated: they come from the chips' timing model. Host time is measured."


class Column(NamedTuple):
    """A column, what it shows of a slice or job, and the narrowest terminal it is shown in.

    One that not every terminal shows is left out where all would have to be cut, the highest number first.
    """

    heading: str
    cell: Callable[[Resource], Text | str]
    from_width: int = 0


def status_view(status: dict[str, Any], width: int, wide: bool = False) -> RenderableType:
    """The whole of it: ``status`` is the answer of /tpuctl/v1/status, ``width`` the terminal's columns.

    ``wide`` shows every job that there ever was, and every column.
    """
    jobs = status["jobs"]
    shown = jobs if wide else [job for job in jobs if job["state"] in LIVE] + _ended(jobs)[-LATEST_JOBS:]
    parts: list[RenderableType] = [_control_plane(status, width), *_budget(status.get("budget")), ""]
    parts.append(_table("Slices", SLICES, status["slices"], width, wide) or _start_with("No slices", NO_SLICES))
    parts.append(_table("Jobs", JOBS, shown, width, wide) or _start_with("No jobs", NO_JOBS))
    parts += _waits(jobs)
    if len(shown) < len(jobs):
        parts.append(Text(f"and {len(jobs) - len(shown)} more: tpuctl list jobs", style="dim"))
    parts.append(Text(CLOCKS, style="dim"))
    return Group(*parts)


def _control_plane(status: dict[str, Any], width: int) -> Text:
    """One line, or two where it is too long."""
    what = f" {status['version']} at {status['url']}, up {seconds_text(status['uptimeSeconds'])}"
    first = Text.assemble(("● ", "green"), ("Control plane", "bold"), what)
    rest = f"  pid {status['pid']}, project {status['project']}, {status['home']}"
    gap = "\n" if first.cell_len + cell_len(rest) > width else ""
    return first.append(gap + rest, "dim")


def _budget(budget: dict[str, Any] | None) -> list[Text]:
    """What of a project's budget is spent, if it has one; in colour from 80%."""
    if budget is None:
        return []
    part = budget["spent"] / budget["amount"]
    style = "bold red" if part >= 1 else "yellow" if part >= NEARLY_SPENT else ""
    line = Text(f"  ${budget['spent']:,.2f} of ${budget['amount']:,.2f} spent this month ({part:.0%})", style=style)
    if part >= 1 and budget["stop"]:
        line.append("; no new slices, and those there are end: tpuctl budget set")
    return [line]


def _waits(jobs: Sequence[Resource]) -> list[Text]:
    lines, rest = told(jobs)
    found = [Text.assemble((names, "bold"), " ", (text, "yellow")) for names, text in lines]
    return [*found, Text(f"and {rest} more: tpuctl describe job NAME", style="dim")] if rest else found


def _table(
    title: str, columns: Sequence[Column], rows: Sequence[Resource], width: int, wide: bool
) -> RenderableType | None:
    if not rows:
        return None
    shown = [column for column in columns if wide or column.from_width <= width]
    cells = {column: [column.cell(row) for row in rows] for column in shown}
    while not wide and _width(cells) > width and any(column.from_width for column in cells):
        del cells[max(cells, key=lambda column: (column.from_width, not column.heading))]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in cells:
        table.add_column(column.heading, no_wrap=True)
    for row in zip(*cells.values(), strict=True):
        table.add_row(*row)
    return table


def _width(cells: dict[Column, list[Text | str]]) -> int:
    """How wide a table is in which nothing is cut: three spaces between columns, one at either end."""
    widest = [max(cell_len(str(cell)) for cell in (column.heading, *those)) for column, those in cells.items()]
    return sum(widest) + 3 * len(widest) - 1


def _name(row: Resource) -> Text:
    return Text(row["name"], style="bold")


def _state(row: Resource) -> Text:
    return Text(row["state"], style=STATE_COLOURS.get(row["state"], ""))


def _slice_state(found: Resource) -> Text:
    """READY; with UNHEALTHY where parts have failed."""
    unhealthy = str(found.get("health") or "").startswith("UNHEALTHY")
    return Text.assemble(_state(found), *([(" UNHEALTHY", "red")] if unhealthy else []))


def _type(found: Resource) -> str:
    return shape_text(found["type"], found.get("numSlices", 1))


def _hbm_bar(found: Resource) -> Text:
    return bar(share(found.get("hbmBytesInUse"), found.get("hbmBytesLimit")))


def _hbm(found: Resource) -> str:
    used, limit = found.get("hbmBytesInUse"), found.get("hbmBytesLimit")
    return UNKNOWN if used is None else f"{bytes_text(used)} of {bytes_text(limit)}"


def _progress(job: Resource) -> str:
    place = training.position(job.get("metrics") or {})
    return str(place._replace(step=None) if place.epoch is not None else place) or UNKNOWN


def _progress_bar(job: Resource) -> Text | str:
    done = training.position(job.get("metrics") or {}).share
    return "" if done is None else bar(done)


def _metric(name: str, form: str) -> Callable[[Resource], str]:
    def cell(job: Resource) -> str:
        value = (job.get("metrics") or {}).get(name)
        return UNKNOWN if value is None else format(float(value), form)

    return cell


SLICES = (
    Column("NAME", _name),
    Column("TYPE", _type),
    Column("STATE", _slice_state),
    Column("CHIPS", lambda found: str(found["chips"])),
    Column("CORES", lambda found: str(found["cores"]), ROOMY),
    Column("HBM USED", _hbm, 1),
    Column("", _hbm_bar, ROOMY),
    Column("MXU BUSY", lambda found: share_text(found.get("mxuBusyShare")), 2),
    Column("", lambda found: bar(found.get("mxuBusyShare")), ROOMY),
    Column("DEVICE TIME", lambda found: seconds_text(found.get("deviceSeconds")), ROOMY + 20),
    Column("JOB", lambda found: found.get("job") or UNKNOWN),
)

JOBS = (
    Column("NAME", _name),
    Column("STATE", _state),
    Column("SLICE", lambda job: job["slice"], ROOMY),
    Column("PROGRESS", _progress),
    Column("", _progress_bar, ROOMY),
    Column("LOSS", _metric("loss", ".4f"), 2),
    Column("ACCURACY", _metric("accuracy", ".2%"), ROOMY),
    Column("HOST STEP", lambda job: seconds_text(training.host_step_seconds(job.get("metricsTail") or [])), 3),
    Column("DEVICE STEP", lambda job: seconds_text(training.device_step_seconds(job)), 4),
    Column("TIME", lambda job: seconds_text(job.get("hostSeconds")), 1),
)

NO_SLICES = "tpuctl create slice NAME --type v3-8"
NO_JOBS = "tpuctl run job mnist"


def _ended(jobs: Sequence[Resource]) -> list[Resource]:
    return [job for job in jobs if job["state"] not in LIVE]


def _start_with(what: str, command: str) -> Text:
    return Text.assemble(f"{what}. Start with ", (command, "cyan"))
