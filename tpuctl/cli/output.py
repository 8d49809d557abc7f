"""The forms of ``-o``: one list or resource, printed as table, wide table, JSON, YAML or names."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

Resource = dict[str, Any]

STATE_COLOURS = {
    "READY": "green",
    "RUNNING": "cyan",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "CREATING": "yellow",
    "DELETING": "yellow",
    "REPAIRING": "red",
    "TERMINATED": "red",
    "HEALTHY": "green",
}


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
    """A column of a table: its heading, its cell for a resource, and whether only the wide table has it."""

    heading: str
    cell: Callable[[Resource], str]
    wide: bool = False


def show_list(resources: Sequence[Resource], columns: Sequence[Column], output: Format, empty: str) -> None:
    """Print resources; a table without rows is only a word on stderr."""
    if output.is_data:
        show_data(list(resources), output)
    elif resources:
        show_table(resources, [column for column in columns if output is Format.WIDE or not column.wide])
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
    from rich.table import Table

    from tpuctl.cli import terminal

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.heading, no_wrap=True)
    for resource in resources:
        table.add_row(*(coloured(column.cell(resource)) for column in columns))
    terminal.stdout().print(table)


def coloured(text: str) -> str:
    """Rich markup for a cell: states have their colour."""
    colour = STATE_COLOURS.get(text)
    escaped = text.replace("[", "\\[")
    return f"[{colour}]{escaped}[/]" if colour else escaped


def short_name(resource: Resource) -> str:
    """The id at the end of a resource's name; of an accelerator type, its type."""
    name: str = resource["name"]
    return name.rpartition("/")[2]
