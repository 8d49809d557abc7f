"""Quotas and usage in tpuctl's own API: what projects may have, and what they have used."""

from __future__ import annotations

import difflib
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tpuctl.api.errors import InvalidArgument
from tpuctl.api.quota import EVERY, Limit, Quota, QuotaRequest
from tpuctl.api.reservations import ReservationSpec
from tpuctl.api.usage import Budget, UsageBy
from tpuctl.control.plane import ControlPlane
from tpuctl.server.bodies import body
from tpuctl.server.guarded import Endpoint
from tpuctl.server.methods import METHODS
from tpuctl.server.queries import number
from tpuctl.server.replies import empty_reply, reply

AnyLimit = TypeVar("AnyLimit", bound=Limit)


def _known(wanted: AnyLimit) -> AnyLimit:
    """A limit of a method that there is. Raises InvalidArgument."""
    ids = {method.id for method in METHODS}
    if wanted.method and wanted.method != EVERY and wanted.method not in ids:
        near = difflib.get_close_matches(wanted.method, ids, n=3) or ["nodes.create", "nodes.list"]
        text = f"{wanted.method!r} is none of the API's; there are {', '.join(near)} and others, and * for all together"
        raise InvalidArgument.of_fields({"method": text})
    return wanted


def quota_rows(plane: ControlPlane, base: str, one_project: str) -> tuple[tuple[str, str, str, Endpoint], ...]:
    """Method, path, permission and endpoint of each."""

    def usage(request: Request) -> Response:
        by = request.query_params.get("by") or UsageBy.SLICE
        if by not in list(UsageBy):
            raise InvalidArgument(f"by {by!r} means nothing; there are {', '.join(UsageBy)}")
        since = float(number(request, "since", 0) or 0)
        return reply(plane.usage(request.path_params["project"], UsageBy(by), since))

    def list_quotas(request: Request) -> Response:
        return reply(plane.list_quotas(request.path_params["project"]))

    async def set_quota(request: Request) -> Response:
        return reply(await run_in_threadpool(plane.set_quota, _known(await body(request, Quota))))

    def list_requests(request: Request) -> Response:
        return reply(plane.list_quota_requests(request.path_params.get("project")))

    async def ask(request: Request) -> Response:
        wanted = _known(await body(request, QuotaRequest))
        return reply(await run_in_threadpool(plane.request_quota, request.path_params["project"], wanted))

    def approve(request: Request) -> Response:
        return reply(plane.decide_quota_request(request.path_params["request"], approve=True))

    def deny(request: Request) -> Response:
        return reply(plane.decide_quota_request(request.path_params["request"], approve=False))

    def list_budgets(request: Request) -> Response:
        return reply(plane.list_budgets(request.path_params["project"]))

    async def set_budget(request: Request) -> Response:
        return reply(await run_in_threadpool(plane.set_budget, await body(request, Budget)))

    def list_reservations(request: Request) -> Response:
        return reply(plane.list_reservations(request.path_params["project"]))

    async def create_reservation(request: Request) -> Response:
        return reply(await run_in_threadpool(plane.create_reservation, await body(request, ReservationSpec)))

    def delete_reservation(request: Request) -> Response:
        place = request.path_params
        plane.delete_reservation(place["project"], place["zone"], place["reservation"])
        return empty_reply()

    one_reservation = f"{one_project}/locations/{{zone}}/reservations/{{reservation}}"
    return (
        ("GET", f"{one_project}/reservations", "tpuctl.reservations.list", list_reservations),
        ("POST", f"{base}/reservations", "tpuctl.limits.reserve", create_reservation),
        ("DELETE", one_reservation, "tpuctl.limits.unreserve", delete_reservation),
        ("GET", f"{one_project}/budgets", "tpuctl.budgets.list", list_budgets),
        ("POST", f"{base}/budgets", "tpuctl.limits.setBudget", set_budget),
        ("GET", f"{one_project}/usage", "tpuctl.usage.list", usage),
        ("GET", f"{one_project}/quotas", "tpuctl.quotas.list", list_quotas),
        ("POST", f"{base}/quotas", "tpuctl.limits.set", set_quota),
        ("GET", f"{one_project}/quotaRequests", "tpuctl.quotas.list", list_requests),
        ("POST", f"{one_project}/quotaRequests", "tpuctl.quotas.request", ask),
        ("GET", f"{base}/quotaRequests", "tpuctl.limits.list", list_requests),
        ("POST", f"{base}/quotaRequests/{{request}}:approve", "tpuctl.limits.approve", approve),
        ("POST", f"{base}/quotaRequests/{{request}}:deny", "tpuctl.limits.deny", deny),
    )
