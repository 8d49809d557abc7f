"""The forms of ``-o``: one list or resource, printed as table, wide table, JSON, YAML or names."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

Resource = dict[str, Any]

GAP = "   "
STATE_COLOURS = {
    "READY": "green",
    "RUNNING": "cyan",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "LOST": "red",
    "CANCELLED": "yellow",
    "CREATING": "yellow",
    "DELETING": "yellow",
    "REPAIRING": "red",
    "TERMINATED": "red",
    "HEALTHY": "green",
    "UNHEALTHY_MAINTENANCE": "red",
}
ANSI = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
STATE_ANSI = {state: ANSI[colour] for state, colour in STATE_COLOURS.items()}


class Format(StrEnum):
    """What ``-o`` takes."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def is_data(self) -> bool:
        """Whether it is for programs: then nothing else may be on stdout."""
        return self in (Format.JSON, Format.YAML, Format.NAME)


class Column(NamedTuple):
    """A column of a table: its heading, its cell for a resource, and whether only the wide table has it.

    A terminal that is too narrow for all leaves out those that can be ``spare``d, the highest number first.
    """

    heading: str
    cell: Callable[[Resource], str]
    wide: bool = False
    spare: int = 0


def show_list(resources: Sequence[Resource], columns: Sequence[Column], output: Format, empty: str) -> None:
    """Print resources; a table without rows is only a word on stderr."""
    if output.is_data:
        show_data(list(resources), output)
    elif resources:
        usual = [column for column in columns if not column.wide]
        show_table(resources, columns if output is Format.WIDE else fitting(resources, usual, _room()))
    else:
        print(empty, file=sys.stderr)


def show_data(value: list[Resource] | Resource, output: Format) -> None:
    """Print a resource or a list of them for programs."""
    match output:
        case Format.JSON:
            print(json.dumps(value, indent=2))
        case Format.YAML:
            import yaml

            print(yaml.safe_dump(value, sort_keys=False), end="")
        case _:
            for resource in value if isinstance(value, list) else [value]:
                print(short_name(resource))


def show_table(resources: Sequence[Resource], columns: Sequence[Column]) -> None:
    """Aligned columns; in a terminal the headings are bold and states have their colour."""
    rows = [[column.heading for column in columns]]
    rows += [[column.cell(resource) for column in columns] for resource in resources]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    coloured = uses_colour()
    for number, row in enumerate(rows):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        padded[-1] = padded[-1].rstrip()
        if coloured:
            padded = [_painted(cell, "1" if number == 0 else STATE_ANSI.get(cell.strip(), "")) for cell in padded]
        print(GAP.join(padded))


def fitting(resources: Sequence[Resource], columns: Sequence[Column], room: int | None) -> list[Column]:
    """Those of the columns that fit ``room``, as far as any can be spared; all where it has no end."""
    left = list(columns)
    widths = {one: max(map(len, [one.heading, *map(one.cell, resources)])) + len(GAP) for one in columns}
    while room is not None and sum(widths[one] for one in left) - len(GAP) > room:
        least = max(left, key=lambda one: one.spare)
        if not least.spare:
            break
        left.remove(least)
    return left


def _room() -> int | None:
    """How wide stdout is; a pipe takes all."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def uses_colour() -> bool:
    """Whether stdout is a terminal that takes colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted(cell: str, ansi: str) -> str:
    return f"\x1b[{ansi}m{cell}\x1b[0m" if ansi else cell


def short_name(resource: Resource) -> str:
    """The id at the end of a resource's name; of an accelerator type, its type."""
    name: str = resource["name"]
    return name.rpartition("/")[2]
