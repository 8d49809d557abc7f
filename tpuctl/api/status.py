"""What `status` shows: the control plane, its slices with their telemetry, its jobs."""

from __future__ import annotations

from pydantic import Field

from tpuctl.api.jobs import Job
from tpuctl.api.model import Model
from tpuctl.api.usage import Budget


class Core(Model):
    """The HBM of one JAX device, in bytes: a TensorCore's, or a chip's where its cores are one device."""

    id: int
    hbm_bytes_in_use: int
    hbm_bytes_limit: int
    hbm_bytes_peak: int


class SliceFault(Model):
    """A part of a slice that has failed: a "link" between two chips, a "chip" or a "host".

    ``where`` are coordinates ("0,1,0"), of a host its index; ``chips`` are those of a failed host.
    """

    part: str
    where: list[str]
    slice_index: int = 0
    chips: list[str] = Field(default_factory=list)


class FaultRequest(Model):
    """A part to break, or to mend."""

    part: str
    where: list[str]
    slice_index: int = 0
    recover: bool = False


class Slice(Model):
    """A slice as it is now. Telemetry is None while its runtime does not answer.

    ``mxu_busy_share`` (0 to 1) and ``device_seconds`` are on the simulated device clock.
    """

    name: str
    zone: str
    type: str
    state: str
    health: str | None = None
    health_description: str | None = None
    endpoint: str | None = None
    topology: str = ""
    num_slices: int = 1
    hosts: int = 1
    chips: int
    cores: int
    hbm_bytes_in_use: int | None = None
    hbm_bytes_limit: int | None = None
    mxu_busy_share: float | None = None
    programs_run: int | None = None
    device_seconds: float | None = None
    job: str | None = None
    faults: list[SliceFault] = Field(default_factory=list)


class SliceWorker(Model):
    """The VM of one host."""

    index: int
    name: str
    ip_address: str


class SliceDetail(Slice):
    """A slice with what a local process needs to use it.

    ``environment`` attaches over the Unix socket, ``environment_tcp`` over the loopback endpoint; both hold secrets.
    ``startup_script`` says how its scripts fare; ``ssh_port`` is where its workers listen, once somebody has a key.
    """

    workers: list[SliceWorker] = Field(default_factory=list)
    per_core: list[Core] = Field(default_factory=list)
    directory: str
    socket: str
    startup_script: str | None = None
    ssh_port: int | None = None
    pid: int | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    environment_tcp: dict[str, str] = Field(default_factory=dict)


class ControlPlaneStatus(Model):
    """``trouble`` says what keeps the control plane from its work now, such as a full disk."""

    version: str
    pid: int
    uptime_seconds: float
    url: str
    grpc_url: str | None = None
    home: str
    project: str
    trouble: str | None = None
    budget: Budget | None = None
    slices: list[Slice] = Field(default_factory=list)
    jobs: list[Job] = Field(default_factory=list)
