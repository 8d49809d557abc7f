"""May a project have these cores? What is in use is no counter: it is the sum over what exists, so nothing is lost.

Nodes count from their creation to their deletion, whatever their state (PREEMPTED ones, too); queued resources as well,
with all that they ask for (SUSPENDED and FAILED ones, too). Where no limit was set there is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache

from backend.hardware import GENERATIONS, AcceleratorType, accelerator_type
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.names import check_project
from tpuctl.api.nodes import NodeSpec
from tpuctl.api.queued import QueuedNodeSpec, QueuedResource
from tpuctl.api.quota import EVERY, Provisioning, Quota, QuotaRequest, RequestState
from tpuctl.control import catalogue
from tpuctl.control.fault_errors import quota_error
from tpuctl.control.provisioning import provisioning_of
from tpuctl.control.views import moment
from tpuctl.store import QueuedRow, Reader, Transaction
from tpuctl.store.rows import NodesAlike, QuotaRequestRow, QuotaRow

REGIONS = tuple(sorted({zone.rpartition("-")[0] for zone in catalogue.ZONES}))
MOST = 10_000_000
"""Cores: no limit is higher."""


def check(
    change: Transaction, project: str, zone: str, kind: AcceleratorType, num_slices: int, how: Provisioning
) -> None:
    """Raises ResourceExhausted, as Cloud TPU does, if a new node or queued resource would be more than is allowed."""
    region = region_of(zone)
    row = _limit(change, project, region, kind.generation.name, how)
    if row is None:
        return
    used = in_use(change, row)
    if used + kind.num_cores * num_slices > row.limit:
        raise quota_error(project, region, kind, how, row.limit, used)


def in_use(reader: Reader, row: QuotaRow) -> int:
    """The cores that count against a limit; against that of all regions, those of regions without one of their own."""

    same = reader.quotas(project=row.project, generation=row.generation, kind=row.kind)
    own = {other.region for other in same}

    def counts(zone: str, kind: AcceleratorType, how: Provisioning) -> bool:
        region = region_of(zone)
        there = region == row.region or (row.region == EVERY and region not in own)
        return there and kind.generation.name == row.generation and how == row.kind

    return sum(_of_nodes(reader.nodes_alike(row.project), counts)) + sum(
        _of_queued(reader.queued_resources(project=row.project), counts)
    )


Counts = Callable[[str, AcceleratorType, Provisioning], bool]


def _of_nodes(nodes: Iterable[NodesAlike], counts: Counts) -> Iterable[int]:
    for alike in nodes:
        kind = accelerator_type(alike.accelerator_type, alike.topology)
        if counts(alike.zone, kind, provisioning_of({"schedulingConfig": json.loads(alike.scheduling or "{}")})):
            yield kind.num_cores * alike.num_slices * alike.count


def _of_queued(queue: Iterable[QueuedRow], counts: Counts) -> Iterable[int]:
    for row in queue:
        kind, count, how = _asked_by(row.zone, json.dumps(row.spec))
        if counts(row.zone, kind, how):
            yield kind.num_cores * count


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
    elif asked.guaranteed is not None and asked.guaranteed.reserved:
        how = Provisioning.RESERVED
    return catalogue.check_type(zone, node), 1 if spec.several is None else spec.several.node_count, how


def region_of(zone: str) -> str:
    return zone.rpartition("-")[0]


def _limit(reader: Reader, project: str, region: str, generation: str, how: Provisioning) -> QuotaRow | None:
    """The limit of the region, or of all regions."""
    rows = {row.region: row for row in reader.quotas(project=project, generation=generation, kind=str(how))}
    return rows.get(region, rows.get(EVERY))


def set_limit(change: Transaction, wanted: Quota) -> None:
    """Raises InvalidArgument."""
    _check(wanted.project, wanted.region, wanted.generation, wanted.limit)
    name = f"{wanted.project}/{wanted.region}/{wanted.generation}/{wanted.kind}"
    known = next((row for row in change.quotas(project=wanted.project) if row.name == name), None)
    if known is None:
        change.insert(
            QuotaRow(name, wanted.project, wanted.region, wanted.generation, str(wanted.kind), wanted.limit, change.now)
        )
    else:
        change.replace(known, limit=wanted.limit)
    change.event(f"quotas/{name}", "set", f"{wanted.limit} cores")


def views(reader: Reader, project: str) -> list[Quota]:
    """The limits of a project, and what is in use of each."""
    return [
        Quota(
            project=row.project,
            region=row.region,
            generation=row.generation,
            kind=Provisioning(row.kind),
            limit=row.limit,
            in_use=in_use(reader, row),
        )
        for row in reader.quotas(project=project)
    ]


def request(change: Transaction, project: str, wanted: QuotaRequest) -> QuotaRequestRow:
    """Ask for another limit; it is as before until an admin approves it. Raises InvalidArgument."""
    _check(project, wanted.region, wanted.generation, wanted.limit)
    row = QuotaRequestRow(
        id=change.new_uid(),
        project=project,
        region=wanted.region,
        generation=wanted.generation,
        kind=str(wanted.kind),
        limit=wanted.limit,
        reason=wanted.reason,
        state=str(RequestState.PENDING),
        create_time=change.now,
    )
    change.insert(row)
    change.event(f"quotaRequests/{row.id}", "-> PENDING", f"{row.limit} cores of {row.generation} for {project}")
    return row


def decide(change: Transaction, wanted: str, *, approve: bool) -> QuotaRequestRow:
    """Approve or deny a request. Raises NotFound, FailedPrecondition."""
    row = next((row for row in change.quota_requests() if row.id == wanted), None)
    if row is None:
        raise NotFound(f"there is no quota request {wanted!r}; `tpuctl quota list` shows those there are")
    if row.state != RequestState.PENDING:
        raise FailedPrecondition(f"quota request {wanted} has been {row.state.lower()} already")
    if approve:
        set_limit(
            change,
            Quota(
                project=row.project,
                region=row.region,
                generation=row.generation,
                kind=Provisioning(row.kind),
                limit=row.limit,
            ),
        )
    state = RequestState.APPROVED if approve else RequestState.DENIED
    change.event(f"quotaRequests/{row.id}", f"{row.state} -> {state}")
    return change.replace(row, state=str(state))


def request_view(row: QuotaRequestRow) -> QuotaRequest:
    return QuotaRequest(
        id=row.id,
        project=row.project,
        region=row.region,
        generation=row.generation,
        kind=Provisioning(row.kind),
        limit=row.limit,
        reason=row.reason,
        state=RequestState(row.state),
        create_time=moment(row.create_time),
    )


def _check(project: str, region: str, generation: str, limit: int) -> None:
    check_project(project)
    if region != EVERY and region not in REGIONS:
        raise InvalidArgument.of_fields(
            {"region": f"{region!r} is none; there are {', '.join(REGIONS)}, and * for any"}
        )
    if generation not in GENERATIONS:
        raise InvalidArgument.of_fields({"generation": f"{generation!r} is none; there are {', '.join(GENERATIONS)}"})
    if limit > MOST:
        raise InvalidArgument.of_fields({"limit": f"{limit} is more than {MOST} cores"})
