"""Each room imports only the rooms before it, and the backend knows nothing of the cloud."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BACKEND = ("hardware", "fleet", "compiler", "tensorcore", "ici", "link", "runtime", "driver", "host")
TPUCTL = ("api", "store", "control", "server", "client", "zoo", "cli")
ROOMS = {"backend": BACKEND, "tpuctl": TPUCTL}
SHARED = {"backend": {"errors", "files", "linux", "log", "pages"}, "tpuctl": {"metrics", "__init__"}}
FILES = sorted(path for table in ROOMS for path in (ROOT / table).rglob("*.py"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Full names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_at_start(tree: ast.Module) -> Iterator[str]:
    """Those that happen when the file itself is imported."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.If):
            yield from imports(node)


def room_of(name: str) -> tuple[str, str]:
    """The table and room of a module's name: ("tpuctl", "cli") of tpuctl.cli.app."""
    table, _, rest = name.partition(".")
    return table, rest.partition(".")[0] or "__init__"


def violation(path: Path, name: str) -> str | None:
    table, room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    to_table, to_room = room_of(name)
    if to_table not in ROOMS:
        return None
    if (table, to_table) == ("backend", "tpuctl"):
        return "the backend imports nothing of tpuctl"
    if table != to_table or room == to_room or to_room in SHARED[table] or room == "__main__":
        return None
    order = ROOMS[table]
    if to_room not in order:
        return None if to_room.startswith("__") else f"{to_room} is not a room of {table}"
    if room in SHARED[table] or order.index(to_room) > order.index(room):
        return f"{room} comes before {to_room}"
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_only_what_comes_before(path):
    found = [(name, violation(path, name)) for name in imports(ast.parse(path.read_text()))]
    assert [pair for pair in found if pair[1]] == []


@pytest.mark.parametrize("path", sorted((ROOT / "tpuctl/cli").glob("*.py")), ids=lambda path: path.stem)
def test_the_command_line_never_imports_the_server_s_rooms_at_start(path):
    start = {room_of(name) for name in imports_at_start(ast.parse(path.read_text()))}
    assert not start & {("tpuctl", "server"), ("tpuctl", "control"), ("tpuctl", "store")}


def test_every_room_is_in_the_table():
    for table, order in ROOMS.items():
        rooms = {path.name for path in (ROOT / table).iterdir() if path.is_dir() and any(path.rglob("*.py"))}
        assert rooms <= set(order)


@pytest.mark.parametrize(
    ("path", "name", "why"),
    [
        ("backend/link/client.py", "tpuctl.api.errors.NotFound", "the backend imports nothing of tpuctl"),
        ("backend/hardware/torus.py", "backend.driver.api", "hardware comes before driver"),
        ("tpuctl/api/nodes.py", "tpuctl.cli.app", "api comes before cli"),
        ("tpuctl/metrics.py", "tpuctl.api.nodes", "metrics comes before api"),
        ("tpuctl/cli/list.py", "tpuctl.api.nodes", None),
        ("tpuctl/control/jobs.py", "backend.host.worker", None),
        ("backend/link/client.py", "backend.errors.TpuError", None),
    ],
)
def test_the_rule_itself(path, name, why):
    assert violation(ROOT / path, name) == why
