"""How does a slice lie on the torus? Chips, hosts and links, plane by plane; of a large slice, its hosts."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from backend.hardware import AcceleratorType, core_locations
from backend.hardware.locations import host_tile
from backend.hardware.torus import Coords, shape_3d, twists

CHIP, HOST = "●", "■"
WIDEST, HIGHEST, MOST_LINES = 16, 20, 60
BETWEEN = 4
STYLES = ("cyan", "green")
"""Hosts side by side have different ones."""


def torus_picture(kind: AcceleratorType, width: int) -> list[Text]:
    """Lines of a drawing that is at most ``width`` wide if that can be: planes side by side, x to the right, y down."""
    x_size, y_size, z_size = shape_3d(kind)
    chips = _Chips(kind)
    small = max(x_size, y_size) <= WIDEST and chips.width <= width and (z_size == 1 or chips.height <= HIGHEST)
    drawing: _Plane = chips if small else _Hosts(kind)
    abreast = max(1, (width + BETWEEN) // (drawing.width + BETWEEN))
    rows = -(-z_size // abreast)
    planes: list[int | None] = list(range(z_size))
    if rows * (drawing.height + 2) > MOST_LINES and z_size > 3:
        planes = [0, 1, None, z_size - 1]
    lines: list[Text] = []
    for start in range(0, len(planes), abreast):
        lines += _side_by_side([_titled(drawing, z, z_size) for z in planes[start : start + abreast]], drawing.width)
        lines.append(Text())
    return [*lines[:-1], Text(), *_legend(kind, small)]


def _titled(drawing: _Plane, z: int | None, planes: int) -> list[Text]:
    if z is None:
        return [Text(f"... {planes - 3} planes ...", style="dim")]
    title = [Text(f"z = {z}", style="bold")] if planes > 1 else []
    return title + drawing.lines(z)


def _side_by_side(blocks: Sequence[list[Text]], width: int) -> list[Text]:
    lines = []
    for number in range(max(map(len, blocks))):
        line = Text()
        for block in blocks:
            cell = block[number].copy() if number < len(block) else Text()
            cell.pad_right(max(0, width + BETWEEN - cell.cell_len))
            line.append_text(cell)
        line.rstrip()
        lines.append(line)
    return lines


class _Plane:
    """One plane of chips as lines of text."""

    width: int
    height: int

    def __init__(self, kind: AcceleratorType) -> None:
        self.shape, self.tile = shape_3d(kind), host_tile(kind)
        self.wrap_x, self.wrap_y = kind.wrap[0], kind.wrap[1]
        self.hosts = {place.coords: place.process_index for place in core_locations(kind)}

    def lines(self, z: int) -> list[Text]:
        raise NotImplementedError

    def style(self, chip: Coords) -> str:
        return STYLES[sum(at // side for at, side in zip(chip, self.tile, strict=True)) % 2]


class _Chips(_Plane):
    """Every chip, with its links: heavy inside a host, light between hosts; a host's number in its middle."""

    def __init__(self, kind: AcceleratorType) -> None:
        super().__init__(kind)
        self.ruler = len(str(self.shape[1] - 1)) + 1
        self.width = self.ruler + 4 * self.shape[0] - 3 + 4 * self.wrap_x
        self.height = 2 * self.shape[1] + 2 * self.wrap_y

    def lines(self, z: int) -> list[Text]:
        x_size, y_size, _ = self.shape
        margin = " " * self.ruler + "  " * self.wrap_x
        found = [Text(margin + "".join(f"{x:<4}" for x in range(x_size)).rstrip(), style="dim")]
        around = Text(margin + "   ".join("↕" * x_size), style="yellow")
        found += [around] * self.wrap_y
        for y in range(y_size):
            found.append(self._row(y, z))
            if y + 1 < y_size:
                found.append(self._below(y, z, margin))
        return found + [around] * self.wrap_y

    def _row(self, y: int, z: int) -> Text:
        line = Text(f"{y:<{self.ruler}}", style="dim")
        line.append("↔ " * self.wrap_x, "not dim yellow")
        for x in range(self.shape[0]):
            style = f"not dim {self.style((x, y, z))}"
            line.append(CHIP, style)
            if x + 1 < self.shape[0]:
                inside = self.hosts[x, y, z] == self.hosts[x + 1, y, z]
                line.append("━━━" if inside else "───", style if inside else "dim")
        line.append(" ↔" * self.wrap_x, "not dim yellow")
        return line

    def _below(self, y: int, z: int, margin: str) -> Text:
        line = Text(margin)
        for x in range(self.shape[0]):
            inside = self.hosts[x, y, z] == self.hosts[x, y + 1, z]
            style = self.style((x, y, z))
            line.append("┃" if inside else "│", style if inside else "dim")
            corner = inside and x % self.tile[0] == 0 and y % self.tile[1] == 0 and self.tile[0] > 1
            line.append(f"{self.hosts[x, y, z]:^3}" if corner else "   ", f"bold {style}")
        line.rstrip()
        return line


class _Hosts(_Plane):
    """One mark for the chips of each host."""

    def __init__(self, kind: AcceleratorType) -> None:
        super().__init__(kind)
        self.ruler = len(str(self.shape[1] - 1)) + 1
        self.columns, self.rows = (self.shape[axis] // self.tile[axis] for axis in (0, 1))
        self.width = self.ruler + 2 * self.columns - 1 + 4 * self.wrap_x
        self.height = self.rows + 1 + 2 * self.wrap_y

    def lines(self, z: int) -> list[Text]:
        margin = " " * self.ruler + "  " * self.wrap_x
        last = str(self.shape[0] - 1)
        head = "0" + last.rjust(2 * self.columns - 2)
        around = Text(margin + " ".join("↕" * self.columns), style="yellow")
        found = [Text(margin + head, style="dim"), *[around] * self.wrap_y]
        for row in range(self.rows):
            y = row * self.tile[1]
            line = Text(f"{y:<{self.ruler}}", style="dim")
            line.append("↔ " * self.wrap_x, "not dim yellow")
            for column in range(self.columns):
                style = self.style((column * self.tile[0], y, z))
                line.append(HOST, f"not dim {style}")
                line.append(" " * (column + 1 < self.columns))
            line.append(" ↔" * self.wrap_x, "not dim yellow")
            found.append(line)
        return found + [around] * self.wrap_y


def _legend(kind: AcceleratorType, small: bool) -> list[Text]:
    tile = "x".join(str(side) for side in host_tile(kind) if side > 1) or "1"
    lines = []
    if small:
        lines.append(f"{CHIP} chip   ━ ┃ link inside a host   ─ │ link between hosts   a number: its host")
    else:
        lines.append(f"{HOST} host of {tile} chips; every chip is linked to its neighbours")
    if kind.wrap[0] or kind.wrap[1]:
        lines.append("↔ ↕ linked around to the other end")
    if len(kind.shape) == 3 and kind.shape[2] > 1:
        ends = ", the last to the first" if kind.wrap[2] else ""
        lines.append(f"along z each chip is linked to the one in the next plane{ends}")
    if kind.twisted:
        for axis, shift in zip("xyz", twists(kind), strict=True):
            by = " and ".join(f"{at} along {along}" for at, along in zip(shift, "xyz", strict=True) if at)
            if by:
                further = by.replace(" along", " further along", 1)
                lines.append(f"twisted: a link around the end of {axis} lands {further}")
    return [Text(line, style="dim") for line in lines]
