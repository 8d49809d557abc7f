"""How long do a program's collectives take on the links? Simulated seconds for any replica groups on a torus.

All groups of a collective run at the same time. What each sends is laid over the links that it takes; the most loaded
link, in one of its two ways, gives the time. A device's chip-mate shares its links; traffic inside a chip takes none.

    ring of n chips, both ways    gather of V bytes: every link carries V (n - 1) / 2n each way, n / 2 steps
    line of n chips (no wrap)     the links at its ends carry V (n - 1) / n, n - 1 steps: twice the time
    box over k axes               the data in k parts, part j over axis j, j + 1, ... so that all axes are busy
    all-gather                    V is the result;  reduce-scatter: V is the operand;  all-reduce: both, of the operand
    all-to-all                    every pair's share goes the short way: n V / 8 a link of a ring of n chips that hold V
                                  bytes each, n V / 4 of a line
    collective-permute            each message the short way, axis by axis
    broadcast                     pipelined along each axis: half round each way of a ring, all along a line
    several slices                within each slice, then between slices over the data-centre network at what the
                                  network cards of the hosts carry, then within each slice again

Source: "How to Scale Your Model" (jax-ml.github.io/scaling-book, TPUs and Sharding): V / W with W of both ways, at
least a hop's latency for each of the n / 2 steps; nV / 8 for all-to-all of a bidirectional ring; no wrap doubles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from backend.compiler.program import Collective
from backend.hardware import AcceleratorType, core_locations
from backend.ici.faults import NO_FAULTS, Faults
from backend.ici.grids import Axis, Lines, boxes
from backend.ici.routes import Floats, Ints, Routes

DCN_LATENCY_SECONDS = 25e-6
"""One way between hosts of a data centre: an assumption, published nowhere for Cloud TPU; a few switches of 5 us."""
_MOST_PAIRS = 1 << 18
_KEPT = 512


@dataclass(frozen=True)
class Span:
    """What groups of chips do to the links, for one byte of each kind of traffic.

    ``axes`` are those along which a group extends; ``exchange`` is the most loaded link of an all-to-all where each
    chip holds one byte; ``dcn_share`` how many chips' bytes the busiest host sends, of chips whose group spans slices.
    """

    axes: tuple[Axis, ...] = ()
    exchange: float = 0.0
    exchange_hops: int = 0
    chips: int = 1
    slices: int = 1
    devices_a_chip: int = 1
    dcn_share: float = 0.0


class Interconnect:
    """The links of a slice, or of several equal ones, and the data-centre network between them."""

    def __init__(self, kind: AcceleratorType, slices: int = 1) -> None:
        self.kind, self.slices = kind, slices
        row = kind.generation
        self.link_rate, self.hop_seconds = row.ici_bytes_per_second_per_link, row.ici_hop_seconds
        self.dcn_host_rate = row.dcn_bytes_per_second_per_chip * kind.chips_per_host
        self._hosts = _hosts(kind, slices)
        self.faults = NO_FAULTS

    @property
    def faults(self) -> Faults:
        return self._faults

    @faults.setter
    def faults(self, faults: Faults) -> None:
        self._faults = faults
        self.routes = Routes(self.kind, self.slices, faults)
        self._spans: dict[bytes, Span] = {}
        self._permutes: dict[bytes, tuple[float, int, float]] = {}

    def seconds(self, collectives: Iterable[Collective], device_ids: Sequence[int]) -> float:
        """Time of a program's collectives on its devices. Raises Unavailable where a failure has cut the way."""
        chips = np.asarray(device_ids, np.int64) // self.kind.generation.devices_per_chip
        spans: dict[int, Span] = {}
        seconds = 0.0
        for each in collectives:
            if each.kind == "collective_permute":
                seconds += each.times * self._permute(each, chips)
                continue
            if id(each.groups) not in spans:
                spans[id(each.groups)] = self.span(each.groups, chips)
            seconds += each.times * self._collective(each, spans[id(each.groups)])
        return seconds

    def _collective(self, collective: Collective, span: Span) -> float:
        """Time of one run of a collective over its groups."""
        size = collective.nbytes
        match collective.kind:
            case "all_reduce":
                return 2 * self._gather(span, size) + self._between(span, 2 * _others(span.slices) * size)
            case "all_gather" | "reduce_scatter":
                return self._gather(span, size) + self._between(span, _others(span.slices) * size)
            case "all_to_all":
                return self._exchange(span, size)
            case "collective_broadcast":
                return self._broadcast(span, size)
        raise ValueError(f"{collective.kind} is no collective")

    def span(self, groups: Sequence[Sequence[int]], chips: Ints) -> Span:
        """What groups of program positions (() for one of all) do to the links."""
        try:
            rows = [chips[None]] if not groups else [chips[np.asarray(groups, np.int64)]]
        except ValueError:  # groups of different sizes
            rows = [chips[None, np.asarray(group, np.int64)] for group in groups]
        key = b"".join(np.array(block.shape).tobytes() + block.tobytes() for block in rows)
        if key not in self._spans:
            if len(self._spans) >= _KEPT:
                self._spans.clear()
            self._spans[key] = self._measure(rows)
        return self._spans[key]

    def _measure(self, rows: list[Ints]) -> Span:
        """``rows`` are blocks of equally large groups."""
        parts = [part for block in rows for part in self._parts(block)]
        chips = max(part.shape[1] for part in parts)
        slices = max(len(np.unique(self.routes.slice_of[block[0]])) for block in rows)
        devices = max(1, max(block.shape[1] for block in rows) // (chips * slices))
        shared = self._dcn_share(parts) if slices > 1 else 0.0
        if chips == 1:
            return Span(slices=slices, devices_a_chip=devices, dcn_share=shared)
        lines = boxes(self.routes, parts)
        if lines is None:
            axes, exchange, hops = self._irregular(parts)
        else:
            axes = tuple(line.gather() for line in lines)
            exchange, hops = Lines.exchange(lines)
        return Span(axes, exchange, hops, chips, slices, devices, shared)

    def _parts(self, block: Ints) -> list[Ints]:
        """Groups as the chips that they have in each slice, each once: blocks of equally large ones."""
        ordered = np.sort(block, axis=1)
        first = np.ones(ordered.shape, np.bool_)
        first[:, 1:] = np.diff(ordered, axis=1) != 0
        if self.slices > 1:
            slices = self.routes.slice_of[ordered]
            each = [first & (slices == index) for index in range(self.slices)]
        else:
            each = [first]
        found = []
        for chosen in each:
            counts = chosen.sum(axis=1)
            for count in np.unique(counts[counts > 0]):
                whole = counts == count
                found.append(ordered[whole][chosen[whole]].reshape(-1, count))
        return found

    def _dcn_share(self, parts: list[Ints]) -> float:
        load = np.zeros(int(self._hosts.max()) + 1)
        for part in parts:
            load += np.bincount(self._hosts[part.ravel()], minlength=len(load)) / part.shape[1]
        return float(load.max())

    def _irregular(self, parts: list[Ints]) -> tuple[tuple[Axis, ...], float, int]:
        """Groups that are no boxes: a ring through the chips in their order, to each neighbour by the short way."""
        loads, exchanged = self.routes.no_loads(), self.routes.no_loads()
        longest, hops, most = 0, 0, max(part.shape[1] for part in parts)
        pairs = sum(part.shape[0] * part.shape[1] ** 2 for part in parts)
        for part in (part for part in parts if part.shape[1] > 1):
            groups, count = part.shape
            here, after = part.ravel(), np.roll(part, -1, axis=1).ravel()
            share = np.full(part.size, (count - 1) / (2 * count))
            step = max(self.routes.send(here, after, share, loads), self.routes.send(after, here, share, loads))
            longest = max(longest, step * math.ceil((count - 1) / 2))
            if pairs <= _MOST_PAIRS:
                sources, targets = np.repeat(part, count, axis=1).ravel(), np.tile(part, (1, count)).ravel()
                shares = np.full(groups * count**2, 1 / count)
                hops = max(hops, self.routes.send(sources, targets, shares, exchanged))
        busiest = float(loads.max())
        spread = busiest * most / (most - 1)
        if pairs > _MOST_PAIRS:
            return (Axis(most, busiest, longest, 2.0, spread),), busiest * most / 4, longest
        return (Axis(most, busiest, longest, 2.0, spread),), float(exchanged.max()), hops

    def _gather(self, span: Span, size: float) -> float:
        """Seconds until every chip of a group has what ``size`` bytes were spread over it, or the reverse."""
        axes = span.axes
        total = sum(axis.ways for axis in axes)
        seconds, left = 0.0, [size * axis.ways / total for axis in axes]
        for phase in range(len(axes)):
            slowest = 0.0
            for part in range(len(axes)):
                axis = axes[(part + phase) % len(axes)]
                moved = left[part] * axis.load / self.link_rate
                slowest = max(slowest, moved, axis.hops * self.hop_seconds)
                left[part] /= axis.chips
            seconds += slowest
        return seconds

    def _exchange(self, span: Span, size: float) -> float:
        held = size * span.devices_a_chip
        inside = held / span.slices * span.exchange / self.link_rate + span.exchange_hops * self.hop_seconds
        return inside + self._between(span, held * span.chips * _others(span.slices))

    def _broadcast(self, span: Span, size: float) -> float:
        busiest = max((axis.spread for axis in span.axes), default=0.0)
        hops = sum(axis.hops for axis in span.axes)
        return busiest * size / self.link_rate + hops * self.hop_seconds + self._between(span, size)

    def _between(self, span: Span, size: float) -> float:
        """Seconds on the data-centre network if all chips of a group together send ``size`` bytes to other slices."""
        if span.slices == 1:
            return 0.0
        return size * span.dcn_share / self.dcn_host_rate + DCN_LATENCY_SECONDS

    def _permute(self, collective: Collective, chips: Ints) -> float:
        pairs = np.asarray(collective.pairs, np.int64).reshape(-1, 2)
        ends = chips[pairs]
        key = ends.tobytes()
        if key not in self._permutes:
            if len(self._permutes) >= _KEPT:
                self._permutes.clear()
            self._permutes[key] = self._route(ends)
        load, hops, across = self._permutes[key]
        size = collective.nbytes
        inside = size * load / self.link_rate + hops * self.hop_seconds
        outside = size * across / self.dcn_host_rate + DCN_LATENCY_SECONDS if across else 0.0
        return max(inside, outside)

    def _route(self, ends: Ints) -> tuple[float, int, float]:
        """Of messages from chip to chip: the most on one link, the most hops, the most out of or into one host."""
        slices = self.routes.slice_of[ends]
        inside = slices[:, 0] == slices[:, 1]
        loads: Floats = self.routes.no_loads()
        near = ends[inside]
        hops = self.routes.send(near[:, 0], near[:, 1], np.ones(len(near)), loads)
        hosts = self._hosts[ends[~inside]]
        across = max(int(np.bincount(hosts[:, side]).max(initial=0)) for side in (0, 1))
        return float(loads.max()), hops, float(across)


def _others(slices: int) -> float:
    """The part of a group's data that lies in other slices."""
    return (slices - 1) / slices


def _hosts(kind: AcceleratorType, slices: int) -> Ints:
    """The host of each chip."""
    places = core_locations(kind, slices)[:: kind.generation.devices_per_chip]
    return np.array([place.process_index for place in places], np.int64)
