"""What of a slice is broken? Links, chips and hosts that have failed, by their places."""

from __future__ import annotations

from dataclasses import dataclass, replace

from backend.errors import InvalidArgument
from backend.hardware import AcceleratorType, Torus, core_locations
from backend.hardware.torus import Coords

Chip = tuple[int, Coords]
"""Slice and coordinates."""
LinkPlace = tuple[int, Coords, Coords]
"""Slice and the coordinates of the two chips, the smaller first."""


@dataclass(frozen=True)
class Faults:
    """``hosts`` are those that failed as a whole; their chips are not among ``failed_chips``."""

    links: frozenset[LinkPlace] = frozenset()
    failed_chips: frozenset[Chip] = frozenset()
    hosts: tuple[tuple[int, frozenset[Chip]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.links or self.failed_chips or self.hosts)

    @property
    def chips(self) -> frozenset[Chip]:
        """Every chip that does not work."""
        return self.failed_chips.union(*(chips for _, chips in self.hosts))

    def text(self) -> str:
        """What is broken, in a line: "link (0,0,0)-(1,0,0) and host 2 have failed"."""
        parts = [f"link {_name(one)}-{_name(other)}{_of(index)}" for index, one, other in sorted(self.links)]
        parts += [f"chip {_name(coords)}{_of(index)}" for index, coords in sorted(self.failed_chips)]
        parts += [f"host {host}" for host, _ in sorted(self.hosts, key=lambda each: each[0])]
        if not parts:
            return "nothing has failed"
        listed = " and ".join((", ".join(parts[:-1]), parts[-1]) if parts[1:] else parts)
        return f"{listed} {'have' if parts[1:] else 'has'} failed"


NO_FAULTS = Faults()


class FaultyParts:
    """Tells from what people write which part of a slice they mean, and breaks or mends it."""

    def __init__(self, kind: AcceleratorType, slices: int = 1) -> None:
        self.kind, self.slices, self.torus = kind, slices, Torus(kind)

    def changed(self, faults: Faults, part: str, where: list[str], *, recover: bool, slice_index: int = 0) -> Faults:
        """``faults`` with a part broken, or mended. Raises InvalidArgument with what would be right.

        ``part`` is "link" (two neighbours' coordinates), "chip" (coordinates) or "host" (an index over all slices).
        """
        if not 0 <= slice_index < self.slices:
            raise InvalidArgument(f"there is no slice {slice_index}, only 0 to {self.slices - 1}")
        match part:
            case "link":
                link = self.link(where, slice_index)
                _check(link in faults.links, recover, f"link {_name(link[1])}-{_name(link[2])}")
                return replace(faults, links=faults.links ^ {link})
            case "chip":
                chip = (slice_index, self.chip(_one(where, "a chip's coordinates, such as 0,1")))
                _check(chip in faults.failed_chips, recover, f"chip {_name(chip[1])}")
                return replace(faults, failed_chips=faults.failed_chips ^ {chip})
            case "host":
                host = self.host(_one(where, "a host's index, such as 0"))
                _check(host in dict(faults.hosts), recover, f"host {host}")
                kept = tuple(each for each in faults.hosts if each[0] != host)
                return replace(faults, hosts=kept if recover else (*kept, (host, self.chips_of(host))))
        raise InvalidArgument(f"{part} is no part of a slice that can fail; use link, chip or host")

    def chip(self, text: str) -> Coords:
        """The coordinates of a chip: "1,0" or "1,0,0" or "(1,0,0)". Raises InvalidArgument."""
        try:
            numbers = [int(number) for number in text.strip("()").split(",")]
        except ValueError:
            numbers = []
        if len(numbers) == 2:
            numbers.append(0)
        inside = all(0 <= at < size for at, size in zip(numbers, self.torus.shape, strict=False))
        if len(numbers) != 3 or not inside:
            last = ",".join(str(size - 1) for size in self.kind.shape)
            first = ",".join("0" for _ in self.kind.shape)
            raise InvalidArgument(
                f'"{text}" is not a chip of a {self.kind.topology} slice; chips are {first} to {last}'
            )
        return numbers[0], numbers[1], numbers[2]

    def link(self, where: list[str], slice_index: int) -> LinkPlace:
        if len(where) != 2:
            raise InvalidArgument("a link is given by the two chips it joins, such as 0,0 0,1")
        one, other = sorted(self.chip(text) for text in where)
        neighbours = self.torus.neighbours(one)
        if other not in neighbours:
            names = ", ".join(_name(chip) for chip in sorted(neighbours)) or "none"
            linked = f"{_name(one)} is linked to {names}"
            raise InvalidArgument(f"chips {_name(one)} and {_name(other)} are not linked; {linked}")
        return slice_index, one, other

    def host(self, text: str) -> int:
        count = self.kind.num_hosts * self.slices
        if not text.isdecimal() or int(text) >= count:
            there = "host 0 only" if count == 1 else f"hosts 0 to {count - 1}"
            raise InvalidArgument(f'"{text}" is not a host of this slice; it has {there}')
        return int(text)

    def chips_of(self, host: int) -> frozenset[Chip]:
        places = core_locations(self.kind, self.slices)
        return frozenset((place.slice_index, place.coords) for place in places if place.process_index == host)


def _one(where: list[str], what: str) -> str:
    if len(where) != 1:
        raise InvalidArgument(f"give {what}")
    return where[0]


def _check(failed: bool, recover: bool, what: str) -> None:
    if failed and not recover:
        raise InvalidArgument(f"{what} has failed already")
    if recover and not failed:
        raise InvalidArgument(f"{what} has not failed")


def _name(coords: Coords) -> str:
    return f"({','.join(map(str, coords))})"


def _of(index: int) -> str:
    return f" of slice {index}" if index else ""
