"""Whose chips are kept for whom, and are some of them free? Reserved slices take from reservations only.

Where no reservation covers a zone's generation, reserved slices are placed as others are: nothing has been set up then.
Which chips of pods are kept is said in reserved.py.
What is in use is the sum over the reserved nodes that exist, as with quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from backend.hardware import GENERATIONS, AcceleratorType
from tpuctl.api.catalogue import CapacityUnits, Interval, Reservation, ReservationState, Standard, Usage
from tpuctl.api.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from tpuctl.api.names import check_id, check_project, location_name
from tpuctl.api.reservations import ReservationSpec
from tpuctl.control.catalogue import WIRE_TYPES, check_zone, offers_pods
from tpuctl.control.fault_errors import Asked, reservation
from tpuctl.control.fleet import Fleet
from tpuctl.control.hosted import kind_of
from tpuctl.control.provisioning import reservation_of
from tpuctl.control.reserved import is_meant
from tpuctl.control.views import moment
from tpuctl.store import NodeRow, Reader, Transaction
from tpuctl.store.rows import ReservationRow


def check(
    change: Transaction, project: str, zone: str, kind: AcceleratorType, num_slices: int, spec: Mapping[str, Any]
) -> None:
    """Raises ResourceExhausted if a new reserved node finds too few free chips in the reservations that it may use."""
    wanted = reservation_of(spec)
    rows = change.reservations(zone=zone, generation=kind.generation.name)
    if wanted is None or not rows:
        return
    used = in_use(change, rows)
    needed = kind.num_chips * num_slices
    able = [row for row in rows if is_active(row, change.now) and may(row, project, wanted)]
    if not any(row.chips - used[row.name] >= needed for row in able):
        raise reservation(Asked("nodes.create", project, zone, ""))


def in_use(reader: Reader, rows: list[ReservationRow]) -> dict[str, int]:
    """The chips in use of each of a zone's reservations of one generation."""
    used = dict.fromkeys((row.name for row in rows), 0)
    if not rows:
        return used
    for node in reader.nodes(zone=rows[0].zone):
        wanted = reservation_of(node.spec)
        if wanted is None or kind_of(node).generation.name != rows[0].generation:
            continue
        chips = _chips(node)
        able = [row for row in rows if may(row, node.project, wanted)]
        chosen = next((row for row in able if row.chips - used[row.name] >= chips), able[0] if able else None)
        if chosen is not None:
            used[chosen.name] += chips
    return used


def may(row: ReservationRow, project: str, wanted: str) -> bool:
    """Whether a project may use a reservation; ``wanted`` is the one that it asks for, "" or "-" for any."""
    return is_meant(row.name, wanted) and (project == row.project or project in row.shared_with)


def is_active(row: ReservationRow, now: float) -> bool:
    return row.start_time <= now and (row.end_time is None or now < row.end_time)


def create(change: Transaction, wanted: ReservationSpec, fleet: Fleet) -> ReservationRow:
    """Of the parts that the fleet file names for it, or of chips that are free now.

    Raises InvalidArgument, AlreadyExists, ResourceExhausted.
    """
    check_project(wanted.project)
    check_id("reservation", wanted.name)
    check_zone(wanted.zone)
    if wanted.generation not in GENERATIONS or not offers_pods(wanted.zone, wanted.generation):
        raise InvalidArgument.of_fields({"generation": f"{wanted.generation!r} is not offered in {wanted.zone}"})
    for project in wanted.shared_with:
        check_project(project)
    start = change.now if wanted.start is None else _seconds(wanted.start)
    end = None if wanted.end is None else _seconds(wanted.end)
    if end is not None and end <= start:
        raise InvalidArgument.of_fields({"end": "is not after the start"})
    if any(row.name == wanted.name for row in change.reservations(zone=wanted.zone)):
        raise AlreadyExists.of(f"{location_name(wanted.project, wanted.zone)}/reservations/{wanted.name}")
    named = fleet.named(wanted.zone, wanted.generation, wanted.name)
    if 0 < named < wanted.chips:
        raise InvalidArgument.of_fields({"chips": f"the fleet file has {named} for {wanted.name}"})
    placement = None if named else fleet.reserve(wanted.zone, wanted.generation, wanted.chips)
    if not named and placement is None:
        raise ResourceExhausted(
            f"no pod of {wanted.zone} has {wanted.chips} chips of {wanted.generation} left to reserve; "
            "see tpuctl status pods"
        )
    row = ReservationRow(
        uid=change.new_uid(),
        name=wanted.name,
        project=wanted.project,
        zone=wanted.zone,
        generation=wanted.generation,
        chips=wanted.chips,
        shared_with=wanted.shared_with,
        start_time=start,
        end_time=end,
        create_time=change.now,
        placement=placement,
    )
    change.insert(row)
    change.event(_full_name(row), "created", f"{row.chips} chips of {row.generation}")
    return row


def delete(change: Transaction, project: str, zone: str, name: str) -> None:
    """Nodes that use it stay. Raises NotFound."""
    row = next((row for row in change.reservations(zone=zone, project=project) if row.name == name), None)
    if row is None:
        raise NotFound.of(f"{location_name(project, zone)}/reservations/{name}")
    change.delete(row)
    change.event(_full_name(row), "deleted")


def visible(reader: Reader, project: str, zone: str) -> list[tuple[ReservationRow, int]]:
    """A project's reservations and those shared with it, in a zone or in all (``-``), with the chips in use."""
    rows = reader.reservations() if zone == "-" else reader.reservations(zone=zone)
    found = []
    for row in rows:
        if may(row, project, ""):
            same = [one for one in rows if (one.zone, one.generation) == (row.zone, row.generation)]
            found.append((row, in_use(reader, same)[row.name]))
    return found


def view(row: ReservationRow, used: int) -> ReservationSpec:
    return ReservationSpec(
        name=row.name,
        project=row.project,
        zone=row.zone,
        generation=row.generation,
        chips=row.chips,
        start=moment(row.start_time),
        end=moment(row.end_time),
        shared_with=row.shared_with,
        in_use=used,
    )


def api_view(row: ReservationRow, used: int, now: float) -> Reservation:
    """As Cloud TPU's API shows it."""
    over = row.end_time is not None and now >= row.end_time
    state = ReservationState.EXPIRED if over else ReservationState.ACTIVE if is_active(row, now) else None
    return Reservation(
        name=_full_name(row),
        standard=Standard(
            size=row.chips,
            capacity_units=CapacityUnits.CHIPS,
            resource_type=WIRE_TYPES[row.generation].value if row.generation in WIRE_TYPES else row.generation,
            interval=Interval(start_time=moment(row.start_time), end_time=moment(row.end_time)),
            usage=Usage(total=str(used)),
        ),
        state=state or ReservationState.APPROVED,
    )


def _full_name(row: ReservationRow) -> str:
    return f"{location_name(row.project, row.zone)}/reservations/{row.name}"


def _chips(node: NodeRow) -> int:
    return kind_of(node).num_chips * node.num_slices


def _seconds(when: datetime) -> float:
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
