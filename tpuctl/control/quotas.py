"""May a project have these slices? What is in use is no counter: it is the sum over what exists, so nothing is lost.

Nodes count from their creation to their deletion, whatever their state (PREEMPTED ones, too); queued resources as well,
with all that they ask for (SUSPENDED and FAILED ones, too). Where no limit was set there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from backend.hardware import GENERATIONS, AcceleratorType, accelerator_type
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.names import check_project
from tpuctl.api.nodes import NodeSpec
from tpuctl.api.queued import QueuedNodeSpec, QueuedResource
from tpuctl.api.quota import EVERY, Limit, Provisioning, Quota, QuotaRequest, RequestState, Unit
from tpuctl.control import catalogue
from tpuctl.control.fault_errors import quota_error
from tpuctl.control.provisioning import provisioning_of
from tpuctl.control.views import moment
from tpuctl.store import QueuedRow, Reader, Transaction
from tpuctl.store.rows import NodesAlike, QuotaRequestRow, QuotaRow

REGIONS = tuple(sorted({zone.rpartition("-")[0] for zone in catalogue.ZONES}))
MOST = 10_000_000
"""No limit is higher."""
CORES_ONLY = ("v2", "v3")
"""What Cloud TPU counts in TensorCores only (cloud.google.com/tpu/docs/quota); later generations in chips as well."""


def check(
    change: Transaction, project: str, zone: str, kind: AcceleratorType, num_slices: int, how: Provisioning
) -> None:
    """Raises ResourceExhausted, as Cloud TPU does, if a new node or queued resource would be more than is allowed."""
    for row in _limits(change, project, zone, kind.generation.name, how):
        used = in_use(change, row)
        if used + size(kind, row.unit) * num_slices > row.limit:
            where = f"zone {zone}" if row.location == zone else f"region {region_of(zone)}"
            raise quota_error(project, where, kind, how, row.limit, used)


def size(kind: AcceleratorType, unit: str) -> int:
    """Of one slice, in cores or chips."""
    return kind.num_chips if unit == Unit.CHIPS else kind.num_cores


def in_use(reader: Reader, row: QuotaRow) -> int:
    """The cores or chips that count against a limit; against that of all regions, those without one of their own."""

    same = reader.quotas(project=row.project, generation=row.generation, kind=row.kind)
    own = {other.location for other in same}

    def counts(zone: str, kind: AcceleratorType, how: Provisioning) -> int:
        region = region_of(zone)
        there = row.location in (zone, region) or (row.location == EVERY and region not in own)
        counted = there and kind.generation.name == row.generation and how == row.kind
        return size(kind, row.unit) if counted else 0

    return sum(_of_nodes(reader.nodes_alike(row.project), counts)) + sum(
        _of_queued(reader.queued_resources(project=row.project), counts)
    )


Counts = Callable[[str, AcceleratorType, Provisioning], int]
"""What a slice counts."""


def _of_nodes(nodes: Iterable[NodesAlike], counts: Counts) -> Iterable[int]:
    for alike in nodes:
        kind = accelerator_type(alike.accelerator_type, alike.topology)
        how = provisioning_of({"schedulingConfig": json.loads(alike.scheduling or "{}")})
        yield counts(alike.zone, kind, how) * alike.num_slices * alike.count


def _of_queued(queue: Iterable[QueuedRow], counts: Counts) -> Iterable[int]:
    for row in queue:
        kind, count, how = _asked_by(row.zone, json.dumps(row.spec))
        yield counts(row.zone, kind, how) * count


@lru_cache(maxsize=16384)
def _asked_by(zone: str, spec: str) -> tuple[AcceleratorType, int, Provisioning]:
    return asked_by(zone, QueuedResource.model_validate_json(spec))


def asked_by(zone: str, asked: QueuedResource) -> tuple[AcceleratorType, int, Provisioning]:
    """What a queued resource asks for: slices of a kind, how many, and how they are come by."""
    (spec,) = asked.tpu.node_spec if asked.tpu else [QueuedNodeSpec()]
    node = NodeSpec.model_validate(spec.node.to_json() if spec.node else {})
    how = provisioning_of(node.to_json())
    if asked.spot is not None or asked.best_effort is not None:
        how = Provisioning.SPOT
    elif asked.reservation_name or (asked.guaranteed is not None and asked.guaranteed.reserved):
        how = Provisioning.RESERVED
    return catalogue.check_type(zone, node), 1 if spec.several is None else spec.several.node_count, how


def region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def _limits(reader: Reader, project: str, zone: str, generation: str, how: Provisioning) -> list[QuotaRow]:
    """The limits of the zone and of its region, or of all regions."""
    rows = {row.location: row for row in reader.quotas(project=project, generation=generation, kind=str(how))}
    found = (rows.get(zone), rows.get(region_of(zone), rows.get(EVERY)))
    return [row for row in found if row is not None]


def set_limit(change: Transaction, wanted: Quota) -> None:
    """Raises InvalidArgument."""
    check_project(wanted.project)
    wanted = wanted.model_copy(update=_checked(wanted))
    what = [wanted.method] if wanted.method else [wanted.location, wanted.generation, str(wanted.kind)]
    name = "/".join([wanted.project, *what])
    known = next((row for row in change.quotas(project=wanted.project) if row.name == name), None)
    if known is None:
        change.insert(QuotaRow(name=name, project=wanted.project, create_time=change.now, **_limit_columns(wanted)))
    else:
        change.replace(known, limit=wanted.limit, unit=str(wanted.unit))
    change.event(f"quotas/{name}", "set", f"{wanted.limit} {wanted.unit}")


def views(reader: Reader, project: str, called: Callable[[str], int]) -> list[Quota]:
    """The limits of a project, and what is in use of each: of a method's, how often it was ``called`` lately."""
    return [
        Quota(project=row.project, in_use=called(row.method) if row.method else in_use(reader, row), **_limit_of(row))
        for row in reader.quotas(project=project)
    ]


def request(change: Transaction, project: str, wanted: QuotaRequest) -> QuotaRequestRow:
    """Ask for another limit; it is as before until an admin approves it. Raises InvalidArgument."""
    check_project(project)
    wanted = wanted.model_copy(update=_checked(wanted))
    row = QuotaRequestRow(
        id=change.new_uid(),
        project=project,
        reason=wanted.reason,
        state=str(RequestState.PENDING),
        create_time=change.now,
        **_limit_columns(wanted),
    )
    change.insert(row)
    change.event(f"quotaRequests/{row.id}", "-> PENDING", f"{row.limit} {row.unit} for {project}")
    return row


def decide(change: Transaction, wanted: str, *, approve: bool) -> QuotaRequestRow:
    """Approve or deny a request. Raises NotFound, FailedPrecondition."""
    row = next((row for row in change.quota_requests() if row.id == wanted), None)
    if row is None:
        raise NotFound(f"there is no quota request {wanted!r}; `tpuctl quota list` shows those there are")
    if row.state != RequestState.PENDING:
        raise FailedPrecondition(f"quota request {wanted} has been {row.state.lower()} already")
    if approve:
        set_limit(change, Quota(project=row.project, **_limit_of(row)))
    state = RequestState.APPROVED if approve else RequestState.DENIED
    change.event(f"quotaRequests/{row.id}", f"{row.state} -> {state}")
    return change.replace(row, state=str(state))


def request_view(row: QuotaRequestRow) -> QuotaRequest:
    return QuotaRequest(
        id=row.id,
        project=row.project,
        reason=row.reason,
        state=RequestState(row.state),
        create_time=moment(row.create_time),
        **_limit_of(row),
    )


def _limit_of(row: QuotaRow | QuotaRequestRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Limit.model_fields}


def _limit_columns(wanted: Limit) -> dict[str, Any]:
    given = {name: getattr(wanted, name) for name in Limit.model_fields}
    return given | {"kind": str(wanted.kind), "unit": str(wanted.unit)}


def _checked(wanted: Limit) -> dict[str, Any]:
    """What of a limit follows from the rest of it. Raises InvalidArgument."""
    if wanted.limit > MOST:
        raise InvalidArgument.of_fields({"limit": f"{wanted.limit} is more than {MOST}"})
    if wanted.method:
        if wanted.generation or wanted.location != EVERY:
            raise InvalidArgument.of_fields({"method": "has no generation or location; calls count together"})
        return {"unit": Unit.REQUESTS}
    if wanted.location not in (EVERY, *REGIONS, *catalogue.ZONES):
        text = f"{wanted.location!r} is none; there are {', '.join(REGIONS)}, their zones, and * for any"
        raise InvalidArgument.of_fields({"location": text})
    if wanted.generation not in GENERATIONS:
        raise InvalidArgument.of_fields(
            {"generation": f"{wanted.generation!r} is none; there are {', '.join(GENERATIONS)}"}
        )
    if wanted.unit is Unit.REQUESTS:
        raise InvalidArgument.of_fields({"unit": "requests are counted of a method"})
    if wanted.unit is Unit.CHIPS and wanted.generation in CORES_ONLY:
        raise InvalidArgument.of_fields({"unit": f"Cloud TPU counts {wanted.generation} in cores"})
    return {}
