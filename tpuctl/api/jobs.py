"""Jobs: a user's command running on a slice."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from tpuctl.api.model import Model
from tpuctl.api.nodes import AcceleratorConfig
from tpuctl.api.operations import Status


class JobState(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class RestartPolicy(StrEnum):
    """After which ends of an attempt another one follows; each covers what those before it do."""

    NEVER = "never"
    ON_PREEMPTION = "on-preemption"
    ON_FAILURE = "on-failure"
    ALWAYS = "always"


class JobPlan(Model):
    """Where and when to run: on an existing ``slice``, or on a new one named after the job.

    The new one is of ``accelerator_type`` or ``accelerator_config``, as a node is; ``num_slices`` of them are joined
    over the data-centre network.
    ``processes`` share the hosts equally; by default there is one a host, or one in all where the hosts are many.
    ``workers`` are the processes that run the command, by default all.

    ``restart`` says when another attempt follows, at most ``max_restarts`` times (None: see control/restarts.py);
    ``checkpoint_dir``, absolute, is where attempts keep what later ones resume from. With ``queue`` a job waits for a
    busy slice, for capacity, in any of ``zones``, and for quota, before others of a lower ``priority``; without it
    fails at once. It waits for the jobs ``after`` to succeed. ``timeout`` is in seconds of running, all attempts taken
    together. ``array_index`` is its number in an array of jobs.
    """

    zone: str | None = None
    slice: str | None = None
    accelerator_type: str | None = None
    accelerator_config: AcceleratorConfig | None = None
    num_slices: int = 1
    keep_slice: bool = False
    processes: int | None = None
    workers: list[int] | None = None
    restart: RestartPolicy = RestartPolicy.NEVER
    max_restarts: int | None = Field(default=None, ge=0, le=10**6)
    checkpoint_dir: str | None = None
    queue: bool = False
    priority: int = Field(default=0, ge=-(10**6), le=10**6)
    zones: list[str] = Field(default_factory=list)
    spot: bool = False
    after: list[str] = Field(default_factory=list)
    timeout: float | None = Field(default=None, gt=0, le=10**9)
    array_index: int | None = Field(default=None, ge=0)


class JobRequest(JobPlan):
    """A job to be. ``environment`` is the whole environment of the command; ``working_directory`` is absolute."""

    name: str | None = None
    command: list[str] = Field(min_length=1)
    working_directory: str
    environment: dict[str, str] = Field(default_factory=dict)


Indices = Annotated[list[Annotated[int, Field(ge=0, lt=10**9)]], Field(min_length=1, max_length=1000)]


class JobArray(Model):
    """The same job once for each of ``indices``, named NAME-INDEX."""

    job: JobRequest
    indices: Indices


class WorkerPhase(StrEnum):
    """LOST: its process ended and could not say how."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    LOST = "LOST"


class JobWorker(Model):
    """One process of a job, on the VM ``name``: it owns ``hosts`` of the slice's, from that one on."""

    index: int
    name: str = ""
    ip_address: str = ""
    hosts: int = 1
    state: WorkerPhase = WorkerPhase.QUEUED
    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None


class Attempt(Model):
    """One run of a job's command. ``ended`` says why it ended, "" while it has not; ``detail`` says more.

    ``metrics_tail`` are its last rows of metrics, ``metrics`` the last value of each.
    """

    number: int
    ended: str = ""
    detail: str = ""
    slice: str = ""
    zone: str = ""
    exit_code: int | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    host_seconds: float | None = None
    device_seconds: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    metrics_tail: list[dict[str, float]] = Field(default_factory=list)
    artifacts: list[str] = Field(default_factory=list)


class Job(Model):
    """``exit_code`` is 128+signal for a command ended by a signal, as a shell shows it.

    It is that of the worker that failed first; ``failed_worker`` is the one to blame. The slice is ``num_slices`` of
    its type and ``topology``, joined over the data-centre network. ``processes`` share the slice's ``hosts``;
    ``workers`` are those that run the command. ``trouble`` says what keeps a running job from going on.

    ``metrics`` holds the last value of each metric, ``metrics_tail`` the last rows, oldest first.
    ``host_seconds`` is measured from the worker's start to its end; ``device_seconds`` is simulated device time.

    ``attempts`` are those that have ended, of a job that has been restarted; ``attempt`` is the number of the one that
    runs, or is to. ``waits_for`` says what a queued job waits for, ``waits_until`` when it is tried again, if it knows.

    ``chip_hours`` are those of its slices in all attempts, ``cost`` is in US dollars at list prices, None where there
    is no price; where only one job is asked for.
    """

    name: str
    uid: str
    project: str
    zone: str
    state: JobState
    command: list[str]
    working_directory: str
    slice: str
    accelerator_type: str
    topology: str | None = None
    num_slices: int = 1
    processes: int = 1
    hosts: int = 1
    workers: list[JobWorker] = Field(default_factory=list)
    ephemeral_slice: bool = False
    keep_slice: bool = False
    cancel_requested: bool = False
    failed_worker: int | None = None
    trouble: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    error: Status | None = None
    create_time: datetime
    start_time: datetime | None = None
    end_time: datetime | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    metrics_tail: list[dict[str, float]] = Field(default_factory=list)
    artifacts: list[str] = Field(default_factory=list)
    host_seconds: float | None = None
    device_seconds: float | None = None
    pid: int | None = None
    directory: str = ""
    attempt: int = 1
    attempts: list[Attempt] = Field(default_factory=list)
    restart: RestartPolicy = RestartPolicy.NEVER
    checkpoint_dir: str | None = None
    priority: int = 0
    waits_for: str | None = None
    waits_until: datetime | None = None
    chip_hours: float | None = None
    cost: float | None = None


class JobList(Model):
    jobs: list[Job] = Field(default_factory=list)


class LogRecord(Model):
    """A piece of a worker's output. ``offset`` is where to read on after it; ``text`` keeps its line end."""

    type: Literal["log"] = "log"
    worker: int = 0
    attempt: int = 1
    offset: int
    stream: Literal["stdout", "stderr"]
    time: float
    text: str


class JobChanged(Model):
    type: Literal["job"] = "job"
    job: Job


class MetricsLogged(Model):
    type: Literal["metrics"] = "metrics"
    attempt: int = 1
    values: dict[str, float]


class Progress(Model):
    type: Literal["progress"] = "progress"
    message: str


JobEvent = JobChanged | LogRecord | MetricsLogged | Progress
_EVENT: TypeAdapter[JobEvent] = TypeAdapter(Annotated[JobEvent, Field(discriminator="type")])


def parse_event(value: Any) -> JobEvent:
    """An event of a job's watch stream from its JSON object."""
    return _EVENT.validate_python(value)
