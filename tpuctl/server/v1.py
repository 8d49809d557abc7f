"""tpuctl's own API: jobs, and what `status` and `attach` show."""

from __future__ import annotations

import os
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tpuctl.api.access import Token, TokenList
from tpuctl.api.api_faults import ApiFault, ApiFaultList
from tpuctl.api.errors import FailedPrecondition
from tpuctl.api.fleet import PodChip, PodList
from tpuctl.api.jobs import JobArray, JobList, JobRequest
from tpuctl.api.names import default_project
from tpuctl.api.nodes import NodeSpec
from tpuctl.api.schedules import ScheduleList, ScheduleRequest
from tpuctl.api.status import FaultRequest
from tpuctl.control.plane import ControlPlane
from tpuctl.server.bodies import body
from tpuctl.server.guarded import ANYWHERE, guarded
from tpuctl.server.proxy import Proxy
from tpuctl.server.queries import number, numbers
from tpuctl.server.quotas import quota_rows
from tpuctl.server.replies import empty_reply, reply
from tpuctl.server.watch import logs, watch

NDJSON = "application/x-ndjson"
OFFSETS = "offset"
"""Where to read on in the output of each worker, in order."""
ATTEMPT = "attempt"
"""Of which attempt; to watch, from which one on."""


class Jobs:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def list(self, request: Request) -> Response:
        return reply(JobList(jobs=self._plane.list_jobs(request.path_params["project"])))

    def get(self, request: Request) -> Response:
        return reply(self._plane.get_job(*_job(request)))

    async def create(self, request: Request) -> Response:
        wanted = await body(request, JobRequest)
        return reply(await run_in_threadpool(self._plane.create_job, request.path_params["project"], wanted))

    async def create_array(self, request: Request) -> Response:
        wanted = await body(request, JobArray)
        made = await run_in_threadpool(self._plane.create_jobs, request.path_params["project"], wanted)
        return reply(JobList(jobs=made))

    async def create_schedule(self, request: Request) -> Response:
        wanted = await body(request, ScheduleRequest)
        return reply(await run_in_threadpool(self._plane.create_schedule, request.path_params["project"], wanted))

    def list_schedules(self, request: Request) -> Response:
        return reply(ScheduleList(schedules=self._plane.list_schedules(request.path_params["project"])))

    def delete_schedule(self, request: Request) -> Response:
        self._plane.delete_schedule(request.path_params["project"], request.path_params["schedule"])
        return empty_reply()

    def cancel(self, request: Request) -> Response:
        return reply(self._plane.cancel_job(*_job(request)))

    def delete(self, request: Request) -> Response:
        self._plane.delete_job(*_job(request))
        return empty_reply()

    def logs(self, request: Request) -> Response:
        places = self._plane.worker_places(*_job(request), number(request, ATTEMPT, 0) or None)
        return StreamingResponse(logs(places, numbers(request, OFFSETS)), media_type=NDJSON)

    async def watch(self, request: Request) -> Response:
        offsets, attempt = numbers(request, OFFSETS), number(request, ATTEMPT, 1)
        await run_in_threadpool(self._plane.worker_places, *_job(request), attempt)
        return StreamingResponse(watch(self._plane, *_job(request), offsets, attempt), media_type=NDJSON)


def routes(plane: ControlPlane, proxy: Proxy | None = None) -> list[Route]:
    jobs = Jobs(plane)
    base = "/tpuctl/v1"
    one_project = base + "/projects/{project}"
    one_job = one_project + "/jobs/{job}"

    def ping(_: Request) -> Response:
        return JSONResponse({"pid": os.getpid()})

    def status(request: Request) -> Response:
        return reply(plane.status(request.query_params.get("project") or default_project()))

    def get_slice(request: Request) -> Response:
        place = request.path_params
        worker, processes = number(request, "worker", 0), number(request, "processes", 1)
        return reply(plane.get_slice(place["project"], place["zone"], place["slice"], processes or None, worker))

    async def fault(request: Request) -> Response:
        place, wanted = request.path_params, await body(request, FaultRequest)
        return reply(await run_in_threadpool(plane.fault, place["project"], place["zone"], place["slice"], wanted))

    def list_faults(_: Request) -> Response:
        return reply(ApiFaultList(faults=plane.api_faults.list()))

    async def add_fault(request: Request) -> Response:
        return reply(await run_in_threadpool(plane.api_faults.add, await body(request, ApiFault)))

    def clear_faults(request: Request) -> Response:
        plane.api_faults.clear(request.path_params.get("fault"))
        return empty_reply()

    def list_pods(_: Request) -> Response:
        return reply(PodList(pods=plane.list_pods()))

    def get_pod(request: Request) -> Response:
        return reply(plane.get_pod(request.path_params["pod"]))

    async def set_pod_chip(request: Request) -> Response:
        pod, wanted = request.path_params["pod"], await body(request, PodChip)
        set_chip = partial(plane.set_pod_chip, pod, wanted.chip, broken=not wanted.recover)
        return reply(await run_in_threadpool(set_chip))

    def repair(request: Request) -> Response:
        place = request.path_params
        plane.repair(place["project"], place["zone"], place["slice"])
        return empty_reply()

    def queue(request: Request) -> Response:
        return reply(plane.queue(request.path_params["project"]))

    def queued_detail(request: Request) -> Response:
        place = request.path_params
        return reply(plane.queued_detail(place["project"], place["zone"], place["queued"]))

    async def simulate(request: Request) -> Response:
        wanted, zone = await body(request, NodeSpec), request.path_params["zone"]
        slices = number(request, "slices", 1)
        return reply(await run_in_threadpool(plane.simulate_placement, zone, wanted, slices))

    def list_tokens(_: Request) -> Response:
        return reply(TokenList(tokens=plane.access.list()))

    async def create_token(request: Request) -> Response:
        return reply(await run_in_threadpool(plane.access.create, await body(request, Token)))

    async def start_proxy(_: Request) -> Response:
        if proxy is None:
            raise FailedPrecondition("this control plane was started without a proxy")
        url, certificate = await proxy.start()
        return JSONResponse({"url": url, "certificate": str(certificate)})

    def revoke_token(request: Request) -> Response:
        plane.access.revoke(request.path_params["token"])
        return empty_reply()

    one_slice = f"{one_project}/locations/{{zone}}/slices/{{slice}}"
    table = (
        ("GET", f"{base}/faults", "tpuctl.faults.list", list_faults),
        ("POST", f"{base}/faults", "tpuctl.faults.create", add_fault),
        ("DELETE", f"{base}/faults", "tpuctl.faults.clear", clear_faults),
        ("DELETE", f"{base}/faults/{{fault}}", "tpuctl.faults.clear", clear_faults),
        ("GET", f"{base}/pods", "tpuctl.pods.list", list_pods),
        ("GET", f"{base}/pods/{{pod}}", "tpuctl.pods.get", get_pod),
        ("GET", f"{one_project}/locations/{{zone}}/queuedResources/{{queued}}", "tpuctl.queue.get", queued_detail),
        ("GET", f"{one_project}/queue", "tpuctl.queue.list", queue),
        ("POST", f"{base}/locations/{{zone}}:simulatePlacement", "tpuctl.pods.list", simulate),
        *quota_rows(plane, base, one_project),
        ("GET", f"{base}/tokens", "tpuctl.tokens.list", list_tokens),
        ("POST", f"{base}/tokens", "tpuctl.tokens.create", create_token),
        ("DELETE", f"{base}/tokens/{{token}}", "tpuctl.tokens.delete", revoke_token),
        ("POST", f"{base}/proxy", "tpuctl.proxy.start", start_proxy),
        ("GET", f"{base}/status", ANYWHERE, status),
        ("POST", f"{base}/pods/{{pod}}:fault", "tpuctl.faults.create", set_pod_chip),
        ("POST", f"{one_slice}:repair", "tpuctl.slices.repair", repair),
        ("POST", f"{one_slice}:fault", "tpuctl.slices.fault", fault),
        ("GET", one_slice, "tpuctl.slices.get", get_slice),
        ("POST", f"{one_job}:cancel", "tpuctl.jobs.cancel", jobs.cancel),
        ("GET", f"{one_job}:watch", "tpuctl.jobs.watch", jobs.watch),
        ("GET", f"{one_job}/logs", "tpuctl.jobs.logs", jobs.logs),
        ("GET", f"{one_project}/jobs", "tpuctl.jobs.list", jobs.list),
        ("POST", f"{one_project}/jobs", "tpuctl.jobs.create", jobs.create),
        ("POST", f"{one_project}/jobs:array", "tpuctl.jobs.create", jobs.create_array),
        ("GET", f"{one_project}/schedules", "tpuctl.jobs.list", jobs.list_schedules),
        ("POST", f"{one_project}/schedules", "tpuctl.jobs.create", jobs.create_schedule),
        ("DELETE", f"{one_project}/schedules/{{schedule}}", "tpuctl.jobs.delete", jobs.delete_schedule),
        ("GET", one_job, "tpuctl.jobs.get", jobs.get),
        ("DELETE", one_job, "tpuctl.jobs.delete", jobs.delete),
    )
    return [Route(f"{base}/ping", ping, methods=["GET"]), *(guarded(*row) for row in table)]


def _job(request: Request) -> tuple[str, str]:
    return request.path_params["project"], request.path_params["job"]
