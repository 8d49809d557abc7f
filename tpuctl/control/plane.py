"""The control plane as its fronts use it: one object that owns the store, the executor and the loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

import tpuctl
from backend.host.executor import LocalExecutor
from backend.host.workers import HostedSlice
from tpuctl.api.catalogue import Reservation
from tpuctl.api.errors import FailedPrecondition, InvalidArgument, NotFound
from tpuctl.api.fleet import FleetFile, Happened, Pod, Queue, QueuedDetail, QueuePlace, SimulatedPlacement
from tpuctl.api.home import Home
from tpuctl.api.jobs import Job, JobArray, JobRequest, JobState, JobWorker
from tpuctl.api.joined_rows import joined
from tpuctl.api.names import operation_name
from tpuctl.api.nodes import Node, NodeJson, NodeSpec, NodeState
from tpuctl.api.operations import Operation
from tpuctl.api.queued import QueuedResource
from tpuctl.api.quota import Quota, QuotaList, QuotaRequest, QuotaRequestList
from tpuctl.api.reservations import ReservationSpec, ReservationSpecList
from tpuctl.api.schedules import Schedule, ScheduleRequest
from tpuctl.api.status import ControlPlaneStatus, FaultRequest, Slice, SliceDetail
from tpuctl.api.usage import Budget, BudgetList, UsageBy, UsageList
from tpuctl.control import (
    budgets,
    catalogue,
    faults,
    jobs,
    nodes,
    operations,
    orphans,
    queued,
    quotas,
    repair,
    reservations,
    schedules,
    telemetry,
)
from tpuctl.control.access import Access
from tpuctl.control.api_faults import ApiFaults
from tpuctl.control.fleet_file import default_fleet
from tpuctl.control.hosted import hosted_slice, shares, some_of
from tpuctl.control.job_files import artifacts, attempt_place, metrics_file, worker_now, worker_places
from tpuctl.control.loop import Loop
from tpuctl.control.metrics_file import MetricsFile
from tpuctl.control.operations import request_key
from tpuctl.control.placing import Placing, wanted_by
from tpuctl.control.pod_views import pod_view, simulated
from tpuctl.control.queued_views import queued_view
from tpuctl.control.rates import Rates
from tpuctl.control.usage import of_job, summed
from tpuctl.control.views import (
    MAX_MEMBERS,
    job_view,
    members,
    moment,
    node_json,
    node_view,
    node_views,
    operation_view,
)
from tpuctl.control.vms import has_server, listening_port, scripts_text
from tpuctl.store import JobRow, NodeRow, OperationRow, Reader, Store, Transaction
from tpuctl.store.rows import ReservationRow

Result = TypeVar("Result")


class ControlPlane:
    """Every method raises ApiError. Safe for use from several threads. ``store`` brings a clock of its own."""

    def __init__(
        self,
        home: Home,
        executor: LocalExecutor | None = None,
        store: Store | None = None,
        fleet: FleetFile | None = None,
    ) -> None:
        self.home = home
        self.url = ""
        self.grpc_url: str | None = None
        self.ending = False
        self.executor = executor or LocalExecutor()
        self.store = store or Store(home.database)
        self.placing = Placing(self.store, fleet or default_fleet())
        self._loop = Loop(self.store, self.executor, home, self.placing)
        self.api_faults = ApiFaults(self.store, self._loop.wake)
        self.rates = Rates(self.store)
        self.access = Access(self.store, str(home.token))
        self._started = time.monotonic()

    def start(self) -> None:
        """Pick up where the last control plane of this home left off."""
        orphans.sweep(self.store, self.executor, self.home)
        self._loop.start()

    def step(self) -> None:
        """Take the next step of everything now, where the control plane has not been started."""
        self._loop.step(everything=True)

    def end(self) -> None:
        self._loop.end()
        self.store.close()

    @property
    def trouble(self) -> str | None:
        """What keeps the control plane from its work now, such as a full disk."""
        return self._loop.trouble

    # Nodes

    def list_nodes(self, project: str, zone: str) -> list[Node]:
        with self.store.read() as reader:
            return [view for row in reader.nodes(**_in(project, zone)) for view in node_views(row, reader.now)]

    def page_of_nodes(self, project: str, zone: str, start: int, size: int) -> tuple[list[NodeJson], int | None]:
        """At most ``size`` nodes, as JSON, from ``start`` on, and where the next page starts; None if there is none.

        A place in the list counts slices, and members within one.
        """
        first, skip = divmod(start, MAX_MEMBERS)
        found: list[NodeJson] = []
        with self.store.read() as reader:
            rows = reader.some_nodes(first, size + 1, **_in(project, zone))
        for number, row in enumerate(rows, first):
            for member in members(row)[skip:]:
                if len(found) == size:
                    return found, number * MAX_MEMBERS + (member or 0)
                found.append(node_json(row, reader.now, member))
            skip = 0
        return found, None

    def get_node(self, project: str, zone: str, name: str) -> Node:
        with self.store.read() as reader:
            node = nodes.find(reader, project, zone, name)
            return node_view(node, reader.now, nodes.member_of(node, name))

    def create_node(
        self,
        project: str,
        zone: str,
        name: str,
        spec: NodeSpec,
        num_slices: int = 1,
        *,
        api_version: str = "V2",
        request_id: str = "",
    ) -> Operation:
        """``num_slices`` of what ``spec`` asks for, joined over the data-centre network."""

        def create(change: Transaction) -> OperationRow:
            made = nodes.create(change, project, zone, name, spec, num_slices=num_slices, api_version=api_version)
            return _operation_of(change, made)

        return self._once(request_key("create", "nodes", project, zone, request_id), create, api_version)

    def act_on_node(
        self,
        project: str,
        zone: str,
        name: str,
        verb: str,
        *,
        version: str = "",
        api_version: str = "V2",
        request_id: str = "",
    ) -> Operation:
        """Start, stop, restart, reimage (with another software ``version``) or delete a node."""
        spec = {"runtimeVersion": version} if version else None
        return self._once(
            request_key(verb, "nodes", project, zone, request_id),
            lambda change: nodes.act(change, nodes.find(change, project, zone, name), verb, spec),
            api_version,
        )

    def update_node(
        self, project: str, zone: str, name: str, mask: list[str], values: Node, *, api_version: str = "V2"
    ) -> Operation:
        def update(change: Transaction) -> OperationRow:
            node = nodes.find(change, project, zone, name)
            return nodes.update(change, node, mask, values, nodes.member_of(node, name))

        return self._once("", update, api_version)

    def hosted_node(self, project: str, zone: str, name: str) -> tuple[HostedSlice, int | None]:
        """The slice that has the node as its hosts see it, and which of its members the node is."""
        with self.store.read() as reader:
            node = nodes.find(reader, project, zone, name)
        return hosted_slice(self.home, node), nodes.member_of(node, name)

    def ssh_host_key(self) -> str | None:
        """The public key of the server that lets users log in to TPU VMs; None where that is not installed."""
        if not has_server():
            return None
        from backend.host.ssh import host_key

        self.home.ssh.mkdir(mode=0o700, parents=True, exist_ok=True)
        return " ".join(host_key(self.home.ssh).export_public_key().decode().split()[:2])

    # Queued resources

    def list_queued(self, project: str, zone: str) -> list[QueuedResource]:
        with self.store.read() as reader:
            return [queued_view(row) for row in reader.queued_resources(**_in(project, zone))]

    def page_of_queued(self, project: str, zone: str, first: int, size: int) -> list[QueuedResource]:
        """At most ``size`` of them, from number ``first`` on."""
        with self.store.read() as reader:
            return [queued_view(row) for row in reader.some_queued_resources(first, size, **_in(project, zone))]

    def get_queued(self, project: str, zone: str, name: str) -> QueuedResource:
        with self.store.read() as reader:
            return queued_view(queued.find(reader, project, zone, name))

    def create_queued(
        self,
        project: str,
        zone: str,
        name: str,
        asked: QueuedResource,
        *,
        api_version: str = "V2",
        request_id: str = "",
    ) -> Operation:
        return self._once(
            request_key("create", "queuedResources", project, zone, request_id),
            lambda change: queued.create(change, project, zone, name, asked, api_version),
            api_version,
        )

    def delete_queued(
        self,
        project: str,
        zone: str,
        name: str,
        *,
        force: bool = False,
        api_version: str = "V2",
        request_id: str = "",
    ) -> Operation:
        return self._once(
            request_key("delete", "queuedResources", project, zone, request_id),
            lambda change: queued.delete(change, queued.find(change, project, zone, name), force=force),
            api_version,
        )

    def reset_queued(self, project: str, zone: str, name: str, *, api_version: str = "V2") -> Operation:
        return self._once(
            "", lambda change: queued.reset(change, queued.find(change, project, zone, name)), api_version
        )

    def maintain_queued(
        self, project: str, zone: str, name: str, node_names: list[str], *, api_version: str = "V2"
    ) -> Operation:
        return self._once(
            "",
            lambda change: queued.perform_maintenance(change, queued.find(change, project, zone, name), node_names),
            api_version,
        )

    def queued_nodes(self, project: str, zone: str, name: str) -> list[Node]:
        """The nodes that a queued resource has now."""
        with self.store.read() as reader:
            made = queued.nodes_of(reader, queued.find(reader, project, zone, name))
        return [view for row in made for view in node_views(row, reader.now)]

    # The fleet

    def list_pods(self) -> list[Pod]:
        """All pods with what is in them."""
        fleet = self.placing.fleet.copy()
        with self.store.read() as reader:
            placed = {node.uid: node for node in reader.placed_nodes()}
        return [pod_view(fleet, pod, placed, reader.now) for pod in list(fleet.pods.values())]

    def get_pod(self, name: str) -> Pod:
        fleet = self.placing.fleet.copy()
        pod = fleet.pods.get(name)
        if pod is None:
            raise NotFound(f"there is no pod {name!r}; `tpuctl status pods` shows those there are")
        with self.store.read() as reader:
            placed = {node.uid: node for node in reader.placed_nodes()}
        return pod_view(fleet, pod, placed, reader.now)

    def simulate_placement(self, zone: str, spec: NodeSpec, num_slices: int = 1) -> SimulatedPlacement:
        """Where such a node would go now, or why it would not."""
        kind = catalogue.check_type(catalogue.check_zone(zone), spec)
        if not 1 <= num_slices <= nodes.MAX_SLICES:
            raise InvalidArgument.of_fields({"numSlices": f"{num_slices} is not from 1 to {nodes.MAX_SLICES}"})
        with self.store.read() as reader:
            placed = {node.uid: node for node in reader.placed_nodes()}
        wanted = wanted_by("", zone, kind, num_slices, spec.to_json())
        return simulated(self.placing.fleet.copy(), wanted, placed, reader.now)

    def queued_detail(self, project: str, zone: str, name: str) -> QueuedDetail:
        """A queued resource with what it waits for and what has happened to it."""
        with self.store.read() as reader:
            row = queued.find(reader, project, zone, name)
            events = reader.events(row.full_name)
        waiting = next((one for one in self.queue(project).waiting if one.name == row.full_name), None)
        return QueuedDetail(
            queued_resource=queued_view(row),
            waits=waiting,
            events=[
                Happened(time=datetime.fromtimestamp(one.time, UTC), change=one.change, message=one.message)
                for one in events
            ],
        )

    def queue(self, project: str) -> Queue:
        """The project's queued resources that wait for room, in the order in which they are looked at."""
        with self.store.read() as reader:
            names = [row.full_name for row in reader.queued_resources(project=project)]
        found = [(name, self.placing.waits(name)) for name in names]
        waiting = [
            QueuePlace(name=name, position=waits.position, reason=waits.reason, expected_start=moment(waits.start))
            for name, waits in found
            if waits is not None
        ]
        return Queue(waiting=sorted(waiting, key=lambda one: one.position))

    # Usage

    def usage(self, project: str, by: UsageBy, since: float) -> UsageList:
        """Chip-hours of a project from ``since`` (seconds since the epoch) until now."""
        with self.store.read() as reader:
            rows, now = reader.usages(project=project), reader.now
        since = min(max(since, 0.0), now)
        return UsageList(
            since=datetime.fromtimestamp(since, UTC),
            until=datetime.fromtimestamp(now, UTC),
            rows=summed(rows, by, since, now),
        )

    def set_budget(self, wanted: Budget) -> Budget:
        def change_it(change: Transaction) -> Budget:
            budgets.set_budget(change, wanted)
            return budgets.view(change, wanted.project) or wanted

        return self._change(change_it)

    def list_budgets(self, project: str) -> BudgetList:
        """The project's budget, if it has one."""
        with self.store.read() as reader:
            found = budgets.view(reader, project)
        return BudgetList(budgets=[] if found is None else [found])

    # Reservations

    def create_reservation(self, wanted: ReservationSpec) -> ReservationSpec:
        fleet = self.placing.fleet.copy()

        def create(change: Transaction) -> ReservationRow:
            fleet.set_reservations(change.reservations())
            return reservations.create(change, wanted, fleet)

        return reservations.view(self._change(create), 0)

    def delete_reservation(self, project: str, zone: str, name: str) -> None:
        self._change(lambda change: reservations.delete(change, project, zone, name))

    def list_reservations(self, project: str) -> ReservationSpecList:
        """The project's, and those shared with it, in all zones."""
        with self.store.read() as reader:
            found = reservations.visible(reader, project, "-")
        return ReservationSpecList(reservations=[reservations.view(row, used) for row, used in found])

    def page_of_reservations(self, project: str, zone: str) -> list[Reservation]:
        """The same, of a zone, as Cloud TPU's API shows them."""
        with self.store.read() as reader:
            found = reservations.visible(reader, project, zone)
            return [reservations.api_view(row, used, reader.now) for row, used in found]

    # Quotas

    def list_quotas(self, project: str) -> QuotaList:
        """The limits of a project, and what is in use of each; where none is set there is none."""
        with self.store.read() as reader:
            return QuotaList(quotas=quotas.views(reader, project, partial(self.rates.called, project)))

    def set_quota(self, wanted: Quota) -> QuotaList:
        self._change(lambda change: quotas.set_limit(change, wanted))
        self.rates.read()
        return self.list_quotas(wanted.project)

    def list_quota_requests(self, project: str | None) -> QuotaRequestList:
        """Those of a project, or of all."""
        where = {} if project is None else {"project": project}
        with self.store.read() as reader:
            return QuotaRequestList(requests=[quotas.request_view(row) for row in reader.quota_requests(**where)])

    def request_quota(self, project: str, wanted: QuotaRequest) -> QuotaRequest:
        return quotas.request_view(self._change(lambda change: quotas.request(change, project, wanted)))

    def decide_quota_request(self, wanted: str, *, approve: bool) -> QuotaRequest:
        decided = self._change(lambda change: quotas.decide(change, wanted, approve=approve))
        self.rates.read()
        return quotas.request_view(decided)

    # Operations

    def list_operations(self, project: str, zone: str) -> list[Operation]:
        with self.store.read() as reader:
            return [operation_view(row) for row in reader.operations(**_in(project, zone))]

    def page_of_operations(self, project: str, zone: str, first: int, size: int) -> list[Operation]:
        """At most ``size`` of them, from number ``first`` on."""
        with self.store.read() as reader:
            return [operation_view(row) for row in reader.some_operations(first, size, **_in(project, zone))]

    def get_operation(self, project: str, zone: str, name: str) -> Operation:
        with self.store.read() as reader:
            return operation_view(_find_operation(reader, project, zone, name))

    def cancel_operation(self, project: str, zone: str, name: str) -> None:
        """Ask for its end; only a create can still be cancelled, others run to theirs."""

        def request(change: Transaction) -> None:
            operation = _find_operation(change, project, zone, name)
            if not operation.done:
                change.replace(operation, cancel_requested=True)

        self._change(request)

    def delete_operation(self, project: str, zone: str, name: str) -> None:
        def remove(change: Transaction) -> None:
            operation = _find_operation(change, project, zone, name)
            if not operation.done:
                raise FailedPrecondition(f"{operation.full_name} is not done; cancel it or wait for it")
            change.delete(operation)

        self._change(remove)

    # Jobs

    def create_job(self, project: str, request: JobRequest) -> Job:
        return self._job(self._change(lambda change: jobs.create(change, self.home, self.executor, project, request)))

    def create_jobs(self, project: str, array: JobArray) -> list[Job]:
        """Jobs NAME-INDEX, all or none."""

        def create(change: Transaction) -> list[JobRow]:
            return jobs.create_array(change, self.home, self.executor, project, array.job, array.indices)

        return [self._job(row) for row in self._change(create)]

    def create_schedule(self, project: str, asked: ScheduleRequest) -> Schedule:
        row = self._change(lambda change: schedules.create(change, self.home, project, asked))
        return schedules.schedule_view(row)

    def list_schedules(self, project: str) -> list[Schedule]:
        with self.store.read() as reader:
            return [schedules.schedule_view(row) for row in reader.schedules(project=project)]

    def delete_schedule(self, project: str, name: str) -> None:
        """Its jobs stay."""
        self._change(lambda change: schedules.delete(change, self.home, schedules.find(change, project, name)))

    def list_jobs(self, project: str) -> list[Job]:
        """The jobs in the order they were asked for, without the older rows of metrics."""
        with self.store.read() as reader:
            rows = sorted(reader.jobs(project=project), key=_asked_for)
        return [self._job(row).model_copy(update={"metrics_tail": []}) for row in rows]

    def get_job(self, project: str, name: str) -> Job:
        with self.store.read() as reader:
            row = jobs.find(reader, project, name)
            node = None if row.state is not JobState.RUNNING else _slice_of(reader, row)
            chip_hours, cost = of_job(reader, row)
        found = self._job(row, None if node is None else telemetry.ask(self.home, node))
        return found.model_copy(update={"chip_hours": chip_hours, "cost": cost})

    def worker_places(self, project: str, name: str, attempt: int | None = None) -> dict[int, Path]:
        """The directories of the workers of an attempt, by default the last, by their numbers. Raises NotFound."""
        with self.store.read() as reader:
            job = jobs.find(reader, project, name)
        if attempt is not None and not 1 <= attempt <= job.attempt:
            raise NotFound(f"job {name} has no attempt {attempt}: its last is {job.attempt}")
        return worker_places(self.home, job, attempt)

    def cancel_job(self, project: str, name: str) -> Job:
        return self._job(self._change(lambda change: jobs.cancel(change, jobs.find(change, project, name))))

    def delete_job(self, project: str, name: str) -> None:
        def remove(change: Transaction) -> str:
            job = jobs.find(change, project, name)
            jobs.delete(change, job)
            return job.uid

        self.executor.remove(self.home.job(self._change(remove)))

    # Status

    def status(self, project: str) -> ControlPlaneStatus:
        with self.store.read() as reader:
            rows, running = reader.nodes(project=project), sorted(reader.jobs(project=project), key=_asked_for)
            budget = budgets.view(reader, project)
        said = dict(zip((row.uid for row in rows), telemetry.ask_all(self.home, rows), strict=True))
        views = []
        for row in running:
            node = next((node for node in rows if nodes.runs_on(row, node)), None)
            views.append(self._job(row, None if node is None else said[node.uid]))
        return ControlPlaneStatus(
            version=tpuctl.__version__,
            pid=os.getpid(),
            uptime_seconds=time.monotonic() - self._started,
            url=self.url,
            grpc_url=self.grpc_url,
            home=str(self.home.path),
            project=project,
            trouble=self.trouble,
            budget=budget,
            slices=[telemetry.slice_view(row, reader.now, said[row.uid], _job_on(row, running)) for row in rows],
            jobs=views,
        )

    def get_slice(self, project: str, zone: str, name: str, processes: int | None = 1, worker: int = 0) -> SliceDetail:
        """A slice, with the environment of one ``worker`` of ``processes`` that use it; None: as many as suit."""
        with self.store.read() as reader:
            node = nodes.find(reader, project, zone, name)
            job = _job_on(node, reader.jobs(project=project))
        hosted = hosted_slice(self.home, node)
        (process,) = some_of(shares(hosted, processes), [worker])
        port = listening_port(self.home, node.uid)
        script = scripts_text(self.executor, hosted.directory)
        said = telemetry.ask(self.home, node, cores=True)
        return telemetry.slice_detail(self.executor, node, reader.now, hosted, process, said, job, script, port)

    def fault(self, project: str, zone: str, name: str, request: FaultRequest) -> Slice:
        """Break a part of a slice, or mend it; the slice as it is then."""
        with self.store.read() as reader:
            node = nodes.find(reader, project, zone, name)
            job = _job_on(node, reader.jobs(project=project))
        said = faults.inject(self.home, node, request)

        def note(change: Transaction) -> NodeRow:
            noted = faults.note(change, node, said)
            after = self.placing.repair_seconds
            return repair.ask(change, noted, after) if noted.health_description and after is not None else noted

        changed = self._change(note)
        return telemetry.slice_view(changed, reader.now, said, job)

    def repair(self, project: str, zone: str, name: str) -> None:
        """Have a slice with failed chips moved to others and restarted. Raises FailedPrecondition."""

        def begin(change: Transaction) -> None:
            node = nodes.find(change, project, zone, name)
            if node.state is not NodeState.READY or not node.health_description:
                raise FailedPrecondition(f"slice {name} is {node.state} and has no failed parts; nothing is to repair")
            repair.ask(change, node)

        self._change(begin)

    def set_pod_chip(self, pod: str, chip: str, *, broken: bool) -> Pod:
        """Break a chip of a pod that no slice has, or mend one; the pod as it is then."""
        fleet = self.placing.fleet.copy()
        fleet.set_broken(pod, self._change(lambda change: repair.set_chip(change, fleet, pod, chip, broken=broken)))
        with self.store.read() as reader:
            placed = {node.uid: node for node in reader.placed_nodes()}
        return pod_view(fleet, fleet.pods[pod], placed, reader.now)

    def _once(self, key: str, decide: Callable[[Transaction], OperationRow], api_version: str) -> Operation:
        """What ``decide`` begins; a request with a ``key`` that has been answered gets the same operation again."""

        def begin(change: Transaction) -> Operation:
            change.api_version = api_version
            return operation_view(operations.once(change, key, decide))

        return self._change(begin)

    def _change(self, decide: Callable[[Transaction], Result]) -> Result:
        with self.store.change() as change:
            result = decide(change)
        self._loop.wake()
        return result

    def _job(self, row: JobRow, said: telemetry.Said | None = None) -> Job:
        """The job as it is now: what a running one has logged and used so far is read from where it logs."""
        directory = self.home.job(row.uid)
        if row.state is not JobState.RUNNING:
            place = self.placing.waits(row.full_name)
            view = job_view(row, str(directory), waits_for=None if place is None else place.reason)
            return self._with_rows(view, view.metrics_tail)
        places = worker_places(self.home, row)
        workers = [worker_now(self.executor, places[worker["index"]], worker) for worker in row.workers]
        view = job_view(row, str(directory), self.executor.command_pid(places[min(places)]))
        metrics = MetricsFile(metrics_file(places))
        metrics.read_on()
        used = telemetry.device_seconds(said, row.name)
        trouble = telemetry.trouble(said, row.name)
        return self._with_rows(view, list(metrics.tail)).model_copy(
            update={
                "workers": [JobWorker.model_validate(worker) for worker in workers],
                "trouble": trouble.text if trouble else self._loop.waits_for(row),
                "metrics": metrics.last,
                "artifacts": artifacts(attempt_place(self.home, row)),
                "host_seconds": None if row.start_time is None else self.store.clock() - row.start_time,
                "device_seconds": None if used is None else max(0.0, used - row.device_seconds_before),
            }
        )

    def _with_rows(self, view: Job, rows: list[dict[str, float]]) -> Job:
        """The job with the metrics of its attempts so far, and of the present one, whose ``rows`` are given."""
        before = [one.metrics_tail for one in view.attempts if one.number < view.attempt]
        return view.model_copy(update={"metrics_tail": joined([*before, rows])})


def _asked_for(job: JobRow) -> tuple[float, int]:
    """Jobs in the order they were asked for; those of an array by their numbers."""
    return job.create_time, job.plan.get("arrayIndex", 0)


def _in(project: str, zone: str) -> dict[str, object]:
    """The columns to look for; ``-`` means every zone."""
    return {"project": project} if zone == "-" else {"project": project, "zone": catalogue.check_zone(zone)}


def _operation_of(change: Transaction, node: NodeRow) -> OperationRow:
    (operation,) = change.operations(name=node.operation)
    return operation


def _find_operation(reader: Reader, project: str, zone: str, name: str) -> OperationRow:
    operation = reader.operation(name)
    if operation is None or (operation.project, operation.zone) != (project, zone):
        raise NotFound.of(operation_name(project, zone, name))
    return operation


def _slice_of(reader: Reader, job: JobRow) -> NodeRow | None:
    return reader.node(project=job.project, zone=job.zone, name=job.slice)


def _job_on(node: NodeRow, rows: list[JobRow]) -> str | None:
    return next((job.name for job in rows if not job.state.ended and nodes.runs_on(job, node)), None)
