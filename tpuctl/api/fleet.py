"""The pods that there are: what a fleet file says of them, and how they look with their slices."""

from __future__ import annotations

from datetime import datetime

from pydantic import AwareDatetime, ConfigDict, Field, model_validator

from tpuctl.api.model import Model
from tpuctl.api.queued import QueuedResource


class MaintenanceWindow(Model):
    """A pod has no slices from ``start`` until ``end``: those that are there move to other pods, or end."""

    model_config = ConfigDict(extra="forbid")

    start: AwareDatetime
    end: AwareDatetime

    @model_validator(mode="after")
    def _ends_after_its_start(self) -> MaintenanceWindow:
        if self.end <= self.start:
            raise ValueError("end is not after start")
        return self


class ReservedPart(Model):
    """A box of a pod ("8x8x8@0,0,8": its size and its first chip) that only slices of a reservation get."""

    model_config = ConfigDict(extra="forbid")

    reservation: str = Field(min_length=1)
    box: str


class PodSpec(Model):
    """A pod of a fleet file. ``shape`` is in chips, by default that of the generation's pods.

    ``spare`` are boxes that are kept for repairs, ``broken`` single chips ("3,0,1").
    """

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    zone: str
    generation: str
    shape: str | None = None
    spare: list[str] = Field(default_factory=list)
    reserved: list[ReservedPart] = Field(default_factory=list)
    broken: list[str] = Field(default_factory=list)
    maintenance: list[MaintenanceWindow] = Field(default_factory=list)


class FleetFile(Model):
    """All pods. With ``elastic`` there is another pod wherever one is full: capacity never ends.

    A slice that is preempted has ``grace_seconds`` from its notice to its end. One with failed chips is repaired after
    ``repair_seconds``, or only when that is asked for. With ``defragment`` slices whose jobs restart are moved, by
    preemption, where that makes room for whoever waits first.
    """

    model_config = ConfigDict(extra="forbid")

    elastic: bool = False
    grace_seconds: float = Field(default=30.0, ge=0)
    defragment: bool = False
    repair_seconds: float | None = Field(default=None, ge=0)
    pods: list[PodSpec] = Field(default_factory=list)


class PodSlice(Model):
    """A slice in a pod, or the part of a multislice that is there. ``size`` and ``origin`` are in chips of the pod.

    ``origin`` is None for cubes that only switches join.
    """

    letter: str
    name: str
    project: str
    type: str
    state: str
    chips: int
    size: str
    origin: str | None = None
    spot: bool = False


class Pod(Model):
    """A pod as it is now: numbers of chips, and what each chip is in ``planes``.

    ``planes`` has a text a plane of the torus (z), of a line a row (y), of a mark a chip (x): a slice's letter or one
    of MARKS. ``unit`` are the chips of a cube or a tile along each axis; slices are parts of one, or of whole ones.
    """

    name: str
    zone: str
    generation: str
    shape: str
    unit: str
    chips: int
    in_use: int = 0
    free: int = 0
    broken: int = 0
    reserved: int = 0
    spare: int = 0
    draining: bool = False
    largest_free: str | None = None
    slices: list[PodSlice] = Field(default_factory=list)
    planes: list[str] = Field(default_factory=list)


class PodChip(Model):
    """A chip of a pod ("3,0,1") that is to break, or to work again."""

    chip: str
    recover: bool = False


class PodList(Model):
    pods: list[Pod] = Field(default_factory=list)


FREE, BROKEN, RESERVED, SPARE, DRAINING = "·", "#", "%", "+", "~"
MARKS = {FREE: "free", BROKEN: "broken", RESERVED: "reserved", SPARE: "spare", DRAINING: "draining"}
"""What a chip is that is in no slice."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
"""Of slices, in turn."""


class Move(Model):
    """A slice that would have to move, and where to: ``size`` and ``origin`` in chips of the pod."""

    name: str
    project: str
    size: str
    origin: str | None = None


class PodObstacles(Model):
    """Why a pod has no room for one slice.

    ``in_the_way`` are the slices of the place where the fewest chips are in the way, ``withheld`` counts those of its
    chips that are broken, reserved, spare or under maintenance.
    """

    pod: str
    free: int
    largest_free: str | None = None
    never: bool = False
    in_the_way: list[str] = Field(default_factory=list)
    withheld: int = 0
    moves: list[Move] = Field(default_factory=list)


class PlacedPart(Model):
    pod: str
    size: str
    origin: str | None = None


class SimulatedPlacement(Model):
    """Where slices would go now, or, for each pod, why they would not: ``needed`` are the chips of one."""

    type: str
    zone: str
    num_slices: int = 1
    needed: int
    parts: list[PlacedPart] = Field(default_factory=list)
    obstacles: list[PodObstacles] = Field(default_factory=list)


class QueuePlace(Model):
    """A queued resource that waits for room: its place among those who do, why, and when it may start, if known."""

    name: str
    position: int
    reason: str
    expected_start: datetime | None = None


class Queue(Model):
    waiting: list[QueuePlace] = Field(default_factory=list)


class Happened(Model):
    """One of the events of a resource: ``change`` is such as "ACCEPTED -> PROVISIONING"."""

    time: datetime
    change: str
    message: str = ""


class QueuedDetail(Model):
    """A queued resource with what it waits for, if it does, and what has happened to it, oldest first."""

    queued_resource: QueuedResource
    waits: QueuePlace | None = None
    events: list[Happened] = Field(default_factory=list)
