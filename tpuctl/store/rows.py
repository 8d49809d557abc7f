"""What is stored of each resource. Times are seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tpuctl.api.jobs import JobState
from tpuctl.api.names import job_name, node_name, operation_name, queued_name
from tpuctl.api.nodes import NodeState
from tpuctl.api.queued import QueuedState


@dataclass(frozen=True)
class NodeRow:
    """A slice. ``operation`` is the one now under way on it; ``owner_job`` the uid of the job it was made for.

    ``topology`` is in chips ("4x4x8"); ``num_slices`` of them are joined over the data-centre network.
    ``queued_resource`` is the full name of the queued resource it was made for. With a ``node_prefix`` each of its
    slices is a node of its own to the Cloud TPU API, PREFIX-0 and on. ``api_version`` is the one that made it.
    ``first_host`` is the number of its first address, the first of ``num_hosts`` (host.address); None if not known.
    ``faults`` are what befalls it, by faults of the API and by preemption (control/node_faults.py).
    ``placement`` is where in which pods its slices lie (control/pods.py); None while they are nowhere.
    ``failures`` counts the runtime's unexpected ends that came in quick succession, the last at ``failure_time``.
    """

    uid: str
    project: str
    zone: str
    name: str
    accelerator_type: str
    state: NodeState
    host: str
    port: int
    create_time: float
    topology: str | None = None
    num_slices: int = 1
    spec: dict[str, Any] = field(default_factory=dict)
    health_description: str | None = None
    owner_job: str | None = None
    queued_resource: str | None = None
    node_prefix: str | None = None
    api_version: str = "V2"
    operation: str | None = None
    failures: int = 0
    failure_time: float | None = None
    first_host: int | None = None
    num_hosts: int | None = None
    faults: list[dict[str, Any]] = field(default_factory=list)
    placement: list[dict[str, Any]] | None = None

    @property
    def full_name(self) -> str:
        return node_name(self.project, self.zone, self.name)


@dataclass(frozen=True)
class QueuedRow:
    """A queued resource. ``spec`` is what was asked for; times in it count from ``queue_time``, its last (re)start.

    ``initiator`` is who caused the state, USER or SERVICE; ``error`` why it FAILED, as google.rpc.Status.
    ``hold`` is what makes it wait for its nodes: the fault, and until when.
    """

    uid: str
    project: str
    zone: str
    name: str
    state: QueuedState
    initiator: str
    spec: dict[str, Any]
    queue_time: float
    create_time: float
    api_version: str = "V2"
    error: dict[str, Any] | None = None
    operation: str | None = None
    hold: dict[str, Any] | None = None

    @property
    def full_name(self) -> str:
        return queued_name(self.project, self.zone, self.name)


@dataclass(frozen=True)
class RequestRow:
    """A request that was answered with an operation: the same request again gets the same answer."""

    request: str
    operation: str
    create_time: float


@dataclass(frozen=True)
class OperationRow:
    """``response`` and ``error`` are as on the wire; one of them is set once ``done``.

    ``api_version`` is that of the request it began with.
    """

    name: str
    project: str
    zone: str
    target: str
    verb: str
    create_time: float
    api_version: str = "V2"
    done: bool = False
    cancel_requested: bool = False
    response: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    end_time: float | None = None
    hold: dict[str, Any] | None = None

    @property
    def full_name(self) -> str:
        return operation_name(self.project, self.zone, self.name)


@dataclass(frozen=True)
class ApiFaultRow:
    """A rule by which faults strike, as api.ApiFault; a ``rate`` is how many a minute are let through.

    ``seen`` have matched it, ``struck`` were struck; ``recent`` is when those were let through that count for the rate.
    """

    id: str
    kind: str
    create_time: float
    name: str = "*"
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    method: str | None = None
    after: float | None = None
    seconds: float | None = None
    rate: int | None = None
    at_step: int | None = None
    seen: int = 0
    struck: int = 0
    recent: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class JobRow:
    """``device_seconds_before`` is what the slice had already counted under the job's name when the job started.

    The job has ``processes``, each with an equal share of the slice's ``hosts``. ``workers`` are those that run the
    command, as api.JobWorker; how each ended is filled in once the job has. ``failed_worker`` is the one to blame.

    ``plan`` is as api.JobPlan. ``attempts`` are those that have ended, as api.Attempt; ``attempt`` is the number of the
    present one, and ``notice_time`` when its workers were told that their slice is about to be preempted. ``waits`` is
    what a queued job waits for before it can have its slice (control/job_waits.py).
    """

    uid: str
    project: str
    zone: str
    name: str
    state: JobState
    command: list[str]
    working_directory: str
    slice: str
    accelerator_type: str
    create_time: float
    topology: str | None = None
    num_slices: int = 1
    processes: int = 1
    hosts: int = 1
    workers: list[dict[str, Any]] = field(default_factory=list)
    ephemeral_slice: bool = False
    keep_slice: bool = False
    cancel_requested: bool = False
    failed_worker: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: dict[str, Any] | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    metrics_tail: list[dict[str, float]] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    host_seconds: float | None = None
    device_seconds: float | None = None
    device_seconds_before: float = 0.0
    plan: dict[str, Any] = field(default_factory=dict)
    attempt: int = 1
    attempts: list[dict[str, Any]] = field(default_factory=list)
    waits: dict[str, Any] | None = None
    notice_time: float | None = None
    start_time: float | None = None
    end_time: float | None = None

    @property
    def full_name(self) -> str:
        return job_name(self.project, self.name)


@dataclass(frozen=True)
class ScheduleRow:
    """A job that runs again and again, as api.Schedule; ``job`` is as api.JobRequest, without its environment.

    With ``indices`` each run is an array of jobs.
    """

    uid: str
    project: str
    name: str
    every: str
    job: dict[str, Any]
    next_time: float
    create_time: float
    last_time: float | None = None
    last_job: str | None = None
    runs: int = 0
    missed: int = 0
    skipped: int = 0
    error: str | None = None
    indices: list[int] | None = None

    @property
    def full_name(self) -> str:
        return f"projects/{self.project}/schedules/{self.name}"


@dataclass(frozen=True)
class TokenRow:
    """A bearer token of ``principal``: its SHA-256, and the principal's role by project (``*``: all)."""

    id: str
    principal: str
    digest: str
    roles: dict[str, str]
    create_time: float


@dataclass(frozen=True)
class ProjectRow:
    """What is kept of a project: the metadata that all of its VMs have."""

    project: str
    metadata: dict[str, str]
    create_time: float


@dataclass(frozen=True)
class UsageRow:
    """A time in which a slice was READY: from ``create_time`` to ``end_time``, which it has not come to while None.

    ``node`` is the slice's uid, ``job`` the name of the job that it was made for, ``scheduling`` as was asked for.
    """

    uid: str
    node: str
    project: str
    zone: str
    name: str
    accelerator_type: str
    topology: str | None
    num_slices: int
    scheduling: dict[str, Any]
    job: str | None
    create_time: float
    end_time: float | None = None


@dataclass(frozen=True)
class ReservationRow:
    """Chips of a generation in a zone that are kept for a project, and those that it is ``shared_with``.

    ``placement`` are the chips of pods that were chosen; None where the fleet file names them.
    """

    uid: str
    name: str
    project: str
    zone: str
    generation: str
    chips: int
    shared_with: list[str]
    start_time: float
    end_time: float | None
    create_time: float
    placement: list[dict[str, Any]] | None = None


@dataclass(frozen=True)
class BudgetRow:
    """US dollars a month."""

    project: str
    amount: float
    stop: bool
    create_time: float


@dataclass(frozen=True)
class NodesAlike:
    """So many nodes of a place and a kind; ``scheduling`` is JSON, None where nothing was asked for."""

    zone: str
    accelerator_type: str
    topology: str | None
    num_slices: int
    scheduling: str | None
    count: int


@dataclass(frozen=True)
class QuotaRow:
    """A limit, of slices of a generation or of calls of a ``method``; the other is "". See tpuctl/api/quota.py."""

    name: str
    project: str
    location: str
    generation: str
    kind: str
    method: str
    limit: int
    unit: str
    create_time: float


@dataclass(frozen=True)
class QuotaRequestRow:
    """A limit that somebody asks for."""

    id: str
    project: str
    location: str
    generation: str
    kind: str
    method: str
    limit: int
    unit: str
    reason: str
    state: str
    create_time: float


@dataclass(frozen=True)
class PodRow:
    """What has happened to a pod: the coordinates of its chips that have broken."""

    name: str
    broken: list[list[int]]
    create_time: float


@dataclass(frozen=True)
class Event:
    """One change of one resource, such as ``CREATING -> READY``."""

    time: float
    resource: str
    change: str
    message: str = ""
    number: int = 0
