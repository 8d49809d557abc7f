"""Cloud TPU's v2 REST API, as a view of the control plane."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tpuctl.api.catalogue import AcceleratorTypeList, LocationList
from tpuctl.api.nodes import Node, NodeList
from tpuctl.api.operations import OperationList
from tpuctl.control import catalogue
from tpuctl.control.plane import ControlPlane
from tpuctl.server.bodies import body
from tpuctl.server.paging import page
from tpuctl.server.queries import number
from tpuctl.server.replies import empty_reply, reply

NODE_VERBS = ("start", "stop")


class Nodes:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def list(self, request: Request) -> Response:
        found, token = page(self._plane.list_nodes(*_parent(request)), request.query_params)
        return reply(NodeList(nodes=found, next_page_token=token))

    def get(self, request: Request) -> Response:
        return reply(self._plane.get_node(*_parent(request), request.path_params["node"]))

    async def create(self, request: Request) -> Response:
        spec = await body(request, Node)
        name = request.query_params.get("nodeId") or request.query_params.get("node_id") or ""
        slices = number(request, "numSlices", 1)
        return reply(await run_in_threadpool(self._plane.create_node, *_parent(request), name, spec, slices))

    async def update(self, request: Request) -> Response:
        values = await body(request, Node)
        mask = request.query_params.get("updateMask") or request.query_params.get("update_mask") or ""
        paths = [path for path in mask.split(",") if path]
        place = (*_parent(request), request.path_params["node"])
        return reply(await run_in_threadpool(self._plane.update_node, *place, paths, values))

    def delete(self, request: Request) -> Response:
        return reply(self._plane.act_on_node(*_parent(request), request.path_params["node"], "delete"))

    def act(self, request: Request) -> Response:
        verb = request.url.path.rsplit(":", 1)[-1]
        return reply(self._plane.act_on_node(*_parent(request), request.path_params["node"], verb))


class Operations:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def list(self, request: Request) -> Response:
        found, token = page(self._plane.list_operations(*_parent(request)), request.query_params)
        return reply(OperationList(operations=found, next_page_token=token))

    def get(self, request: Request) -> Response:
        return reply(self._plane.get_operation(*_parent(request), request.path_params["operation"]))

    def cancel(self, request: Request) -> Response:
        self._plane.cancel_operation(*_parent(request), request.path_params["operation"])
        return empty_reply()

    def delete(self, request: Request) -> Response:
        self._plane.delete_operation(*_parent(request), request.path_params["operation"])
        return empty_reply()


def list_locations(request: Request) -> Response:
    found, token = page(catalogue.locations(request.path_params["project"]), request.query_params)
    return reply(LocationList(locations=found, next_page_token=token))


def get_location(request: Request) -> Response:
    return reply(catalogue.location(*_parent(request)))


def list_accelerator_types(request: Request) -> Response:
    found, token = page(catalogue.accelerator_types(*_parent(request)), request.query_params)
    return reply(AcceleratorTypeList(accelerator_types=found, next_page_token=token))


def get_accelerator_type(request: Request) -> Response:
    return reply(catalogue.one_accelerator_type(*_parent(request), request.path_params["type"]))


def routes(plane: ControlPlane) -> list[Route]:
    nodes, operations = Nodes(plane), Operations(plane)
    locations = "/v2/projects/{project}/locations"
    zone = locations + "/{zone}"
    return [
        *(Route(f"{zone}/nodes/{{node}}:{verb}", nodes.act, methods=["POST"]) for verb in NODE_VERBS),
        Route(f"{zone}/nodes", nodes.list, methods=["GET"]),
        Route(f"{zone}/nodes", nodes.create, methods=["POST"]),
        Route(f"{zone}/nodes/{{node}}", nodes.get, methods=["GET"]),
        Route(f"{zone}/nodes/{{node}}", nodes.update, methods=["PATCH"]),
        Route(f"{zone}/nodes/{{node}}", nodes.delete, methods=["DELETE"]),
        Route(f"{zone}/operations/{{operation}}:cancel", operations.cancel, methods=["POST"]),
        Route(f"{zone}/operations", operations.list, methods=["GET"]),
        Route(f"{zone}/operations/{{operation}}", operations.get, methods=["GET"]),
        Route(f"{zone}/operations/{{operation}}", operations.delete, methods=["DELETE"]),
        Route(f"{zone}/acceleratorTypes", list_accelerator_types, methods=["GET"]),
        Route(f"{zone}/acceleratorTypes/{{type}}", get_accelerator_type, methods=["GET"]),
        Route(locations, list_locations, methods=["GET"]),
        Route(zone, get_location, methods=["GET"]),
    ]


def _parent(request: Request) -> tuple[str, str]:
    return request.path_params["project"], request.path_params["zone"]
