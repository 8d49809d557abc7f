"""Which slices can be asked for by name? Accelerator types: a generation, a topology, and how its chips are hosted.

Names count TensorCores on v2, v3, v4, v5p and tpu7x, chips on v5litepod and v6e.

Sources
    [hosts]  v2, v3, v4, v5p, 7x: 4 chips a host (docs.cloud.google.com/tpu/docs/v4, v5p, tpu7x); v5e and v6e: VMs of
             1, 4 or 8 chips for a slice of one host, of 4 chips for larger ones (xpk, system_characteristics.py;
             Cloud TPU's v6e page: 4x4 on 4 VMs ... 16x16 on 64)
    [wraps]  v4, v5p, 7x: optical switches wrap every axis if all are multiples of 4, none of smaller slices; v5e, v6e:
             an axis of 16 chips wraps (jax-ml/scaling-book, tpus.md). v2, v3: an axis as long as the pod's, for those
             are what the pod's own wrap-around cables close
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from functools import cached_property

from backend.hardware.generations import GENERATIONS, Generation, generation
from backend.hardware.topologies import PUBLISHED, UNTWISTED, InvalidTopology, check, may_twist, parse, text

_MOST_NAMED = 12


@dataclass(frozen=True)
class AcceleratorType:
    """A slice shape: ``topology`` in chips ("4x4x8", "4x4x8_untwisted"), and the generation its chips are of."""

    name: str
    generation: Generation
    topology: str
    chips_per_host: int = 4

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Chips along each axis, x first."""
        return parse(self.topology)[0]

    @property
    def twisted(self) -> bool:
        """Whether the wrap links of the short axes land half a long axis further."""
        return may_twist(self.generation, self.shape) and not self.topology.endswith(UNTWISTED)

    @property
    def num_chips(self) -> int:
        return math.prod(self.shape)

    @property
    def num_cores(self) -> int:
        """TensorCores."""
        return self.num_chips * self.generation.cores_per_chip

    @property
    def num_devices(self) -> int:
        """Devices that JAX sees."""
        return self.num_chips * self.generation.devices_per_chip

    @property
    def num_hosts(self) -> int:
        return max(1, self.num_chips // self.chips_per_host)

    @property
    def devices_per_host(self) -> int:
        return self.num_devices // self.num_hosts

    @property
    def wrap(self) -> tuple[bool, ...]:
        """For each axis, whether its ends are linked."""
        pod = self.generation.pod_shape
        if len(pod) == 3:
            return (all(size % 4 == 0 for size in self.shape),) * 3
        return tuple(size == max(pod) for size in self.shape)

    @property
    def hbm_bytes(self) -> int:
        """HBM of all its chips."""
        return self.num_chips * self.generation.hbm_bytes_per_chip


class UnknownAcceleratorType(ValueError):
    """No accelerator type has this name; the message gives the nearest, and those of its generation."""

    def __init__(self, name: str) -> None:
        nearest = _nearest(name)
        hint = f" Did you mean {nearest}?" if nearest else ""
        prefix = _ALIASES.get(nearest or name, nearest or name).partition("-")[0]
        family = [row for row in ACCELERATOR_TYPES if row.startswith(f"{prefix}-")]
        more = f" and {len(family) - _MOST_NAMED} more" if len(family) > _MOST_NAMED else ""
        valid = ", ".join(family[:_MOST_NAMED]) + more if family else f"those of {', '.join(_PREFIXES)}"
        super().__init__(f'"{name}" is not an accelerator type.{hint} Valid types: {valid}; see tpuctl list types.')
        self.name = name


def _chips_per_host(chips_generation: Generation, chips: int) -> int:
    one_host = len(chips_generation.pod_shape) == 2 and chips_generation.names_count == "chips"
    return chips if one_host and chips <= 8 else 4


def _slice(chips_generation: Generation, topology: str) -> AcceleratorType:
    """A slice of any topology. Raises InvalidTopology."""
    return _row(chips_generation, *check(chips_generation, topology))


def _row(chips_generation: Generation, shape: tuple[int, ...], twisted: bool = True) -> AcceleratorType:
    chips = math.prod(shape)
    counted = chips * (chips_generation.cores_per_chip if chips_generation.names_count == "cores" else 1)
    return AcceleratorType(
        f"{chips_generation.name_prefix}-{counted}",
        chips_generation,
        text(shape) + ("" if twisted or not may_twist(chips_generation, shape) else UNTWISTED),
        _chips_per_host(chips_generation, chips),
    )


ACCELERATOR_TYPES: dict[str, AcceleratorType] = {
    row.name: row
    for name, topologies in PUBLISHED.items()
    for row in (_row(GENERATIONS[name], parse(topology)[0]) for topology in topologies)
}
"""The published types with the topology that each has by default, generation by generation, smallest first."""

_ALIASES = {
    row.name.replace("v5litepod-", "v5e-"): row.name
    for row in ACCELERATOR_TYPES.values()
    if row.generation.name == "v5e"
}
_PREFIXES = {row.name_prefix: row for row in GENERATIONS.values()}


def _nearest(name: str) -> str | None:
    """The type most like a name that is none: of the generation that it names the nearest in size, else by spelling."""
    prefix, _, size = name.partition("-")
    same = [row for row in (*ACCELERATOR_TYPES, *_ALIASES) if row.startswith(f"{prefix}-")]
    if same and size.isdecimal():
        return min(same, key=lambda row: abs(math.log(int(row.partition("-")[2])) - math.log(max(1, int(size)))))
    close = difflib.get_close_matches(name, same or [*ACCELERATOR_TYPES, *_ALIASES], n=1, cutoff=0.5)
    return close[0] if close else None


def accelerator_type(name: str, topology: str | None = None) -> AcceleratorType:
    """The accelerator type called ``name`` ("v3-32"), in its default topology or another of as many chips.

    Raises UnknownAcceleratorType, InvalidTopology.
    """
    known = ACCELERATOR_TYPES.get(_ALIASES.get(name, name))
    if topology is None or (known and topology == known.topology):
        if known is None:
            raise UnknownAcceleratorType(name)
        return known
    prefix = (known.name if known else name).partition("-")[0]
    if prefix not in _PREFIXES:
        raise UnknownAcceleratorType(name)
    found = _slice(_PREFIXES[prefix], topology)
    if found.name != (known.name if known else name):
        same = known.topology if known else found.name
        raise InvalidTopology(found.generation, topology, f"it makes {found.name}, not {name}", [same])
    return found


def slice_of(generation_name: str, topology: str) -> AcceleratorType:
    """A slice by its shape: ("v4", "4x4x8") is v4-256. Raises UnknownGeneration, InvalidTopology."""
    return _slice(generation(generation_name), topology)


def pod_type(generation_name: str) -> AcceleratorType:
    """The full pod of a generation. Raises UnknownGeneration."""
    kind = generation(generation_name)
    return _row(kind, kind.pod_shape)
