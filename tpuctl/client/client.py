"""Typed calls: every method is one request and returns the API's own models."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tpuctl.api.errors import DeadlineExceeded, NotFound, from_status
from tpuctl.api.names import default_project, default_zone, last, location_name, zone_of
from tpuctl.client.transport import Transport

if TYPE_CHECKING:
    from tpuctl.api.access import Token
    from tpuctl.api.api_faults import ApiFault
    from tpuctl.api.catalogue import AcceleratorType, Location
    from tpuctl.api.fleet import Pod, SimulatedPlacement
    from tpuctl.api.jobs import Job, JobEvent, JobRequest, LogRecord
    from tpuctl.api.nodes import Node
    from tpuctl.api.operations import Operation
    from tpuctl.api.queued import QueuedResource
    from tpuctl.api.quota import Quota, QuotaRequest
    from tpuctl.api.reservations import ReservationSpec
    from tpuctl.api.schedules import Schedule
    from tpuctl.api.status import ControlPlaneStatus, FaultRequest, Slice, SliceDetail
    from tpuctl.api.usage import Budget

ALL_ZONES = "-"
API_FAULTS = "/tpuctl/v1/faults"
TOKENS = "/tpuctl/v1/tokens"
quote = partial(urllib.parse.quote, safe="")


class Client:
    """A control plane's client for one project. Every method raises ApiError.

    ``zone`` arguments default to the client's zone (TPUCTL_ZONE); lists take ``"-"`` for all zones.
    """

    def __init__(
        self,
        url: str,
        token: str,
        project: str | None = None,
        zone: str | None = None,
        certificate: Path | None = None,
    ) -> None:
        self.url = url
        self.certificate = certificate
        self.project = project or default_project()
        self.zone = zone or default_zone()
        self._transport = Transport(url, token, certificate)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    # Nodes

    def list_nodes(self, zone: str = ALL_ZONES) -> list[Node]:
        from tpuctl.api.nodes import NodeList

        return NodeList.model_validate(self._get(f"{self._location(zone)}/nodes")).nodes

    def get_node(self, node: str, zone: str | None = None) -> Node:
        from tpuctl.api.nodes import Node

        return Node.model_validate(self._get(f"{self._location(zone)}/nodes/{quote(node)}"))

    def create_node(self, node: str, spec: Node, zone: str | None = None, num_slices: int = 1) -> Operation:
        """``num_slices`` of what ``spec`` asks for, joined over the data-centre network."""
        several = {"numSlices": str(num_slices)} if num_slices != 1 else {}
        return self._operation("POST", f"{self._location(zone)}/nodes", body=spec.to_json(), nodeId=node, **several)

    def delete_node(self, node: str, zone: str | None = None) -> Operation:
        return self._operation("DELETE", f"{self._location(zone)}/nodes/{quote(node)}")

    def start_node(self, node: str, zone: str | None = None) -> Operation:
        return self._operation("POST", f"{self._location(zone)}/nodes/{quote(node)}:start", body={})

    def stop_node(self, node: str, zone: str | None = None) -> Operation:
        return self._operation("POST", f"{self._location(zone)}/nodes/{quote(node)}:stop", body={})

    # Operations

    def list_operations(self, zone: str = ALL_ZONES) -> list[Operation]:
        from tpuctl.api.operations import OperationList

        return OperationList.model_validate(self._get(f"{self._location(zone)}/operations")).operations

    def get_operation(self, name: str, zone: str | None = None) -> Operation:
        """An operation by its full name or its id."""
        location = self._location(zone_of(name) if "/" in name else zone)
        return self._operation("GET", f"{location}/operations/{last(name)}")

    def wait(self, operation: Operation, timeout_seconds: float = 60.0) -> Operation:
        """Poll until it is done. Raises the operation's own error, or DeadlineExceeded."""
        deadline = time.monotonic() + timeout_seconds
        pause = 0.01
        while not operation.done:
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"{operation.name} is not done after {timeout_seconds:g} s; it goes on")
            time.sleep(pause)
            pause = min(pause * 1.2, 0.25)
            operation = self.get_operation(operation.name)
        if operation.error is not None:
            raise from_status(operation.error.to_json())
        return operation

    # Catalogue

    def list_locations(self) -> list[Location]:
        from tpuctl.api.catalogue import LocationList

        return LocationList.model_validate(self._get(f"/v2/projects/{self.project}/locations")).locations

    def list_accelerator_types(self, zone: str | None = None) -> list[AcceleratorType]:
        from tpuctl.api.catalogue import AcceleratorTypeList

        answer = self._get(f"{self._location(zone)}/acceleratorTypes")
        return AcceleratorTypeList.model_validate(answer).accelerator_types

    # Jobs

    def create_job(self, request: JobRequest) -> Job:
        placed = request if request.zone else request.model_copy(update={"zone": self.zone})
        return self._job("POST", "", body=placed.to_json())

    def create_jobs(self, request: JobRequest, indices: Sequence[int]) -> list[Job]:
        """The same job once for each index, all or none."""
        from tpuctl.api.jobs import JobArray, JobList

        placed = request if request.zone else request.model_copy(update={"zone": self.zone})
        wanted = JobArray(job=placed, indices=list(indices))
        return JobList.model_validate(self._transport.call("POST", f"{self._jobs}:array", body=wanted.to_json())).jobs

    def create_schedule(
        self, name: str, every: str, request: JobRequest, indices: Sequence[int] | None = None
    ) -> Schedule:
        """Run the job, or an array of it, again and again."""
        from tpuctl.api.schedules import Schedule, ScheduleRequest

        placed = request if request.zone else request.model_copy(update={"zone": self.zone})
        wanted = ScheduleRequest(name=name, every=every, job=placed, indices=None if indices is None else list(indices))
        path = f"/tpuctl/v1/projects/{self.project}/schedules"
        return Schedule.model_validate(self._transport.call("POST", path, body=wanted.to_json()))

    def delete_schedule(self, name: str) -> None:
        self._transport.call("DELETE", f"/tpuctl/v1/projects/{self.project}/schedules/{quote(name)}")

    def list_jobs(self) -> list[Job]:
        from tpuctl.api.jobs import JobList

        return JobList.model_validate(self._get(self._jobs)).jobs

    def get_job(self, job: str) -> Job:
        return self._job("GET", f"/{quote(job)}")

    def cancel_job(self, job: str) -> Job:
        """Ask for its end; it is CANCELLED when its command has gone."""
        return self._job("POST", f"/{quote(job)}:cancel", body={})

    def delete_job(self, job: str) -> None:
        """Forget an ended job, its output and its artifacts."""
        self._transport.call("DELETE", f"{self._jobs}/{quote(job)}")

    def job_logs(self, job: str, offsets: Sequence[int] = (0,), attempt: int | None = None) -> Iterator[LogRecord]:
        """What its workers have written so far in an attempt, by default the last, each from its offset on."""
        from tpuctl.api.jobs import LogRecord

        query = _query(offsets, attempt)
        for value in self._transport.stream(f"{self._jobs}/{quote(job)}/logs", **query):
            yield LogRecord.model_validate(value)

    def watch_job(self, job: str, offsets: Sequence[int] = (0,), attempt: int = 1) -> Iterator[JobEvent]:
        """Its events as they happen, until it has ended, from ``attempt`` on.

        The output of each worker in that one starts at its offset.
        """
        from tpuctl.api.jobs import parse_event

        query = _query(offsets, attempt if attempt > 1 else None)
        for value in self._transport.stream(f"{self._jobs}/{quote(job)}:watch", **query):
            yield parse_event(value)

    # Status

    def status(self) -> ControlPlaneStatus:
        from tpuctl.api.status import ControlPlaneStatus

        return ControlPlaneStatus.model_validate(self._transport.call("GET", "/tpuctl/v1/status", project=self.project))

    def get_slice(self, node: str, zone: str | None = None) -> SliceDetail:
        """A slice's telemetry, and what a local process needs to use it."""
        from tpuctl.api.status import SliceDetail

        location = location_name(self.project, zone or self.zone)
        return SliceDetail.model_validate(self._get(f"/tpuctl/v1/{location}/slices/{quote(node)}"))

    def fault(self, node: str, request: FaultRequest, zone: str | None = None) -> Slice:
        """Break a part of a slice, or mend it; the slice as it is then."""
        from tpuctl.api.status import Slice

        path = f"/tpuctl/v1/{location_name(self.project, zone or self.zone)}/slices/{quote(node)}:fault"
        return Slice.model_validate(self._transport.call("POST", path, body=request.to_json()))

    def ssh_host_key(self, node: str, zone: str | None = None) -> str:
        """The public key of the VMs of a slice: ``ssh-ed25519 AAAA...``. Raises NotFound if they have none."""
        path = f"{self._location(zone)}/nodes/{quote(node)}:getGuestAttributes"
        answer = self._transport.call("POST", path, body={"queryPath": "hostkeys/", "workerIds": ["0"]})
        for one in answer.get("guestAttributes") or []:
            for item in (one.get("queryValue") or {}).get("items") or []:
                return f"{item['key']} {item['value']}"
        raise NotFound(f"the VMs of {node} have no SSH host key")

    # Queued resources

    def create_queued(self, name: str, asked: QueuedResource, zone: str | None = None) -> Operation:
        path = f"{self._location(zone)}/queuedResources"
        return self._operation("POST", path, body=asked.to_json(), queuedResourceId=name)

    def delete_queued(self, name: str, *, force: bool = False, zone: str | None = None) -> Operation:
        path = f"{self._location(zone)}/queuedResources/{quote(name)}"
        return self._operation("DELETE", path, force="true" if force else None)

    # Reservations

    def create_reservation(self, wanted: ReservationSpec) -> None:
        self._transport.call("POST", "/tpuctl/v1/reservations", body=wanted.to_json())

    def delete_reservation(self, name: str, zone: str | None = None) -> None:
        place = location_name(self.project, zone or self.zone)
        self._transport.call("DELETE", f"/tpuctl/v1/{place}/reservations/{quote(name)}")

    # Budgets

    def set_budget(self, wanted: Budget) -> Budget:
        from tpuctl.api.usage import Budget

        return Budget.model_validate(self._transport.call("POST", "/tpuctl/v1/budgets", body=wanted.to_json()))

    def list_budgets(self, project: str | None = None) -> list[Budget]:
        from tpuctl.api.usage import BudgetList

        answer = self._get(f"/tpuctl/v1/projects/{project or self.project}/budgets")
        return BudgetList.model_validate(answer).budgets

    # Quotas

    def list_quotas(self, project: str | None = None) -> list[Quota]:
        from tpuctl.api.quota import QuotaList

        return QuotaList.model_validate(self._get(f"/tpuctl/v1/projects/{project or self.project}/quotas")).quotas

    def list_quota_requests(self, project: str | None = None) -> list[QuotaRequest]:
        from tpuctl.api.quota import QuotaRequestList

        answer = self._get(f"/tpuctl/v1/projects/{project or self.project}/quotaRequests")
        return QuotaRequestList.model_validate(answer).requests

    def set_quota(self, wanted: Quota) -> None:
        self._transport.call("POST", "/tpuctl/v1/quotas", body=wanted.to_json())

    def request_quota(self, wanted: QuotaRequest, project: str | None = None) -> QuotaRequest:
        from tpuctl.api.quota import QuotaRequest

        path = f"/tpuctl/v1/projects/{project or self.project}/quotaRequests"
        return QuotaRequest.model_validate(self._transport.call("POST", path, body=wanted.to_json()))

    def decide_quota_request(self, wanted: str, *, approve: bool) -> QuotaRequest:
        from tpuctl.api.quota import QuotaRequest

        path = f"/tpuctl/v1/quotaRequests/{quote(wanted)}:{'approve' if approve else 'deny'}"
        return QuotaRequest.model_validate(self._transport.call("POST", path))

    # The fleet

    def list_pods(self) -> list[Pod]:
        """All pods with what is in them."""
        from tpuctl.api.fleet import PodList

        return PodList.model_validate(self._get("/tpuctl/v1/pods")).pods

    def set_pod_chip(self, pod: str, chip: str, *, recover: bool) -> Pod:
        """Break a chip of a pod that no slice has, or mend one; the pod as it is then."""
        from tpuctl.api.fleet import Pod

        body = {"chip": chip, "recover": recover}
        return Pod.model_validate(self._transport.call("POST", f"/tpuctl/v1/pods/{quote(pod)}:fault", body=body))

    def repair(self, node: str, zone: str | None = None) -> None:
        """Have a slice with failed chips moved to others and restarted."""
        place = location_name(self.project, zone or self.zone)
        self._transport.call("POST", f"/tpuctl/v1/{place}/slices/{quote(node)}:repair")

    def simulate_placement(self, spec: Node, slices: int = 1, zone: str | None = None) -> SimulatedPlacement:
        """Where so many slices would go now, or why they would not."""
        from tpuctl.api.fleet import SimulatedPlacement

        path = f"/tpuctl/v1/locations/{zone or self.zone}:simulatePlacement"
        return SimulatedPlacement.model_validate(self._transport.call("POST", path, body=spec.to_json(), slices=slices))

    # Faults of the API

    def add_api_fault(self, fault: ApiFault) -> ApiFault:
        from tpuctl.api.api_faults import ApiFault

        return ApiFault.model_validate(self._transport.call("POST", API_FAULTS, body=fault.to_json()))

    def list_api_faults(self) -> list[ApiFault]:
        from tpuctl.api.api_faults import ApiFaultList

        return ApiFaultList.model_validate(self._get(API_FAULTS)).faults

    def clear_api_faults(self, fault: str | None = None) -> None:
        """Forget one, or all."""
        self._transport.call("DELETE", API_FAULTS if fault is None else f"{API_FAULTS}/{quote(fault)}")

    # Access

    def create_token(self, wanted: Token) -> Token:
        """The only time that it is told."""
        from tpuctl.api.access import Token

        return Token.model_validate(self._transport.call("POST", TOKENS, body=wanted.to_json()))

    def list_tokens(self) -> list[Token]:
        from tpuctl.api.access import TokenList

        return TokenList.model_validate(self._get(TOKENS)).tokens

    def revoke_token(self, token: str) -> None:
        self._transport.call("DELETE", f"{TOKENS}/{quote(token)}")

    # The proxy

    def start_proxy(self) -> dict[str, str]:
        """Its ``url``, and the file of its authority's ``certificate``."""
        found: dict[str, str] = self._transport.call("POST", "/tpuctl/v1/proxy")
        return found

    @property
    def _jobs(self) -> str:
        return f"/tpuctl/v1/projects/{self.project}/jobs"

    def _location(self, zone: str | None) -> str:
        return f"/v2/{location_name(self.project, zone or self.zone)}"

    def _get(self, path: str) -> Any:
        return self._transport.call("GET", path)

    def _operation(self, method: str, path: str, *, body: Any = None, **query: str | None) -> Operation:
        from tpuctl.api.operations import Operation

        return Operation.model_validate(self._transport.call(method, path, body=body, **query))

    def _job(self, method: str, path: str, *, body: Any = None) -> Job:
        from tpuctl.api.jobs import Job

        return Job.model_validate(self._transport.call(method, self._jobs + path, body=body))


def _query(offsets: Sequence[int], attempt: int | None) -> dict[str, str]:
    listed = {"offset": ",".join(map(str, offsets))}
    return listed if attempt is None else listed | {"attempt": str(attempt)}
