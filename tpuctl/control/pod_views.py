"""How do pods look with what is in them, and what would become of a request? Read from the fleet by any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from backend.fleet import Placement
from backend.fleet.layout import Layout, Masks
from backend.fleet.obstacles import largest_free
from backend.fleet.placement import coordinates
from backend.hardware.torus import Coords
from tpuctl.api import fleet as api
from tpuctl.api.names import shape_text as slices_text
from tpuctl.control.fleet import Fleet, Part, Wanted
from tpuctl.control.hosted import kind_of
from tpuctl.control.placing import is_spot, wanted_of
from tpuctl.control.pods import Pod, nothing, shape_text
from tpuctl.store import NodeRow


def pod_view(fleet: Fleet, pod: Pod, nodes: Mapping[str, NodeRow], now: float) -> api.Pod:
    """A pod; ``nodes`` are those that lie in the fleet, by uid."""
    layout, snapshot = pod.layout, fleet.snapshot(pod.name)
    there = [(nodes[uid], part) for uid, part in fleet.parts_in(pod.name) if uid in nodes]
    there.sort(key=lambda one: (one[0].create_time, one[0].uid))
    slices = [_slice(layout, number, node, part) for number, (node, part) in enumerate(there)]
    used = _joined(layout, [part.placement.chips for _, part in there])
    broken = pod.empty(fleet.broken(pod.name)).taken & ~used
    idle = ~used & ~broken & layout.full_mask
    draining = pod.drains(now)
    marks = {
        api.DRAINING: idle if draining else nothing(layout),
        api.RESERVED: _joined(layout, [part.chips for part in fleet.reserved(pod.name, now)]) & idle,
        api.SPARE: pod.spare & idle,
        api.BROKEN: broken,
    }
    if draining:
        marks[api.RESERVED] = marks[api.SPARE] = nothing(layout)
    largest = largest_free(snapshot.with_taken(fleet.withheld(pod.name, None, now) & ~snapshot.taken))
    letters = [(one.letter, part.placement.chips) for one, (_, part) in zip(slices, there, strict=True)]
    return api.Pod(
        name=pod.name,
        zone=pod.zone,
        generation=layout.generation.name,
        shape=shape_text(layout, layout.shape),
        unit=shape_text(layout, layout.unit),
        chips=layout.num_chips,
        in_use=_count(used),
        free=layout.num_chips - _count(used) - sum(map(_count, marks.values())),
        broken=_count(broken),
        reserved=_count(marks[api.RESERVED]),
        spare=_count(marks[api.SPARE]),
        draining=draining,
        largest_free=None if largest is None else shape_text(layout, largest),
        slices=slices,
        planes=_planes(layout, [*marks.items(), *letters]),
    )


def simulated(fleet: Fleet, wanted: Wanted, nodes: Mapping[str, NodeRow], now: float) -> api.SimulatedPlacement:
    """What would become of a request now; nothing is changed."""
    kind = wanted.kind
    made = api.SimulatedPlacement(type=kind.name, zone=wanted.zone, num_slices=wanted.num_slices, needed=kind.num_chips)
    parts = fleet.find(wanted, now)
    if parts is not None:
        return made.model_copy(update={"parts": [_placed(fleet, part) for part in parts]})
    movable = {uid: wanted_of(node).request for uid, node in nodes.items()}
    found = []
    for name, blocked in fleet.obstacles(wanted, now).items():
        layout = fleet.pods[name].layout
        there = fleet.parts_in(name)
        blocking = [uid for uid, part in there if uid in nodes and (part.placement.chips & blocked.chips).any()]
        plan = fleet.room_by_moving(wanted, now, movable, pods=[name]) if not blocked.never else None
        moves = [] if plan is None else [_move(layout, nodes[one.name], one.to) for one in plan[1].moves]
        found.append(
            api.PodObstacles(
                pod=name,
                free=blocked.free,
                largest_free=None if blocked.largest is None else shape_text(layout, blocked.largest),
                never=blocked.never,
                in_the_way=[nodes[uid].full_name for uid in blocking],
                withheld=_count(blocked.chips & ~_joined(layout, [part.placement.chips for _, part in there])),
                moves=moves,
            )
        )
    return made.model_copy(update={"obstacles": found})


def _slice(layout: Layout, number: int, node: NodeRow, part: Part) -> api.PodSlice:
    placement = part.placement
    return api.PodSlice(
        letter=api.LETTERS[number % len(api.LETTERS)],
        name=node.name,
        project=node.project,
        type=slices_text(kind_of(node).name, 1),
        state=node.state,
        chips=placement.num_chips,
        size=shape_text(layout, placement.size),
        origin=_origin(layout, placement.origin),
        spot=is_spot(node.spec),
    )


def _placed(fleet: Fleet, part: Part) -> api.PlacedPart:
    layout = fleet.pods[part.pod].layout
    return api.PlacedPart(
        pod=part.pod, size=shape_text(layout, part.placement.size), origin=_origin(layout, part.placement.origin)
    )


def _move(layout: Layout, node: NodeRow, to: Placement) -> api.Move:
    return api.Move(
        name=node.name, project=node.project, size=shape_text(layout, to.size), origin=_origin(layout, to.origin)
    )


def _origin(layout: Layout, at: Coords | None) -> str | None:
    return None if at is None else ",".join(map(str, at[: len(layout.generation.pod_shape)]))


def _planes(layout: Layout, marked: Iterable[tuple[str, Masks]]) -> list[str]:
    """A text a plane; the later of two marks on a chip is seen."""
    x_size, y_size, z_size = layout.shape
    marks = np.full((z_size, y_size, x_size), api.FREE)
    for mark, chips in marked:
        for x, y, z in coordinates(layout, chips):
            marks[z, y, x] = mark
    return ["\n".join("".join(row) for row in plane) for plane in marks]


def _joined(layout: Layout, chips: list[Masks]) -> Masks:
    found: Masks = np.bitwise_or.reduce([nothing(layout), *chips])
    return found


def _count(chips: Masks) -> int:
    return int(np.bitwise_count(chips).sum())
