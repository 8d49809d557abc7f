"""What does the metadata server of a TPU VM answer, and how is it served? To processes on the worker's own address.

Paths, headers and the keys of tpu-env are Compute Engine's and Cloud TPU's: /computeMetadata/v1/…, with
``Metadata-Flavor: Google`` both ways.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from backend.host.environment import bounds_text, geometry, megascale, slice_of, topology_text, wrap_text
from backend.host.workers import HostedSlice, Process

ROOT = "/computeMetadata/v1/"
METADATA_DOWN = "metadata-down"
"""While a slice's directory has a file of this name, the metadata servers of its hosts answer nothing."""
PREEMPTED = "preempted"
"""A slice's directory has a file of this name once it has been given notice of its preemption."""
MAINTENANCE = "maintenance"
"""The same, of maintenance of its pod."""
WAIT_SECONDS = 0.05
FLAVOR = ("Metadata-Flavor", "Google")
Values = Mapping[str, str]


def metadata(hosted: HostedSlice, process: Process) -> dict[str, str]:
    """Path below ROOT to value, for the worker that ``process`` runs on."""
    worker = process.worker
    _, peers, index = slice_of(hosted, process)
    endpoints = ",".join(f"{peer.worker.name}:{number}:{peer.worker.ip_address}" for number, peer in enumerate(peers))
    given = {f"instance/attributes/{name}": value for name, value in hosted.metadata.items()}
    return given | {
        "instance/name": worker.name,
        "instance/hostname": worker.name,
        "instance/id": str(int(hosted.uid, 16)),
        "instance/zone": f"projects/{hosted.project}/zones/{hosted.zone}",
        "instance/network-interfaces/0/ip": worker.ip_address,
        "instance/attributes/accelerator-type": hosted.kind.name,
        "instance/attributes/agent-worker-number": str(index),
        "instance/attributes/instance-id": hosted.name,
        "instance/attributes/tpu-env": _tpu_env(hosted, process, index),
        "instance/attributes/worker-network-endpoints": endpoints,
        "project/project-id": hosted.project,
        "universe/universe-domain": "googleapis.com",
    }


def _tpu_env(hosted: HostedSlice, process: Process, index: int) -> str:
    """YAML lines, as Cloud TPU writes them."""
    kind = hosted.kind
    values = {
        "ACCELERATOR_TYPE": kind.name,
        "CHIPS_PER_HOST_BOUNDS": bounds_text(hosted.chips_per_host_bounds),
        "HOST_BOUNDS": bounds_text(hosted.host_bounds),
        "TOPOLOGY": topology_text(kind),
        "ALT": "true" if kind.twisted else "false",
        "TYPE": kind.generation.name.upper(),
        "WRAP": wrap_text(kind.wrap),
        "WORKER_ID": str(index),
        "NODE_ID": hosted.name,
        "ZONE": hosted.zone,
        "CONSUMER_PROJECT_ID": hosted.project,
        **geometry(hosted, process),
        **(megascale(hosted, process) if hosted.num_slices > 1 else {}),
    }
    return "".join(f"{name}: '{value}'\n" for name, value in values.items())


class MetadataServer:
    """Bound to any free port of ``host``. It has no thread before ``start``; connections wait until then."""

    def __init__(self, host: str, values: Values, directory: Path | None = None) -> None:
        """``directory`` is the slice's. Raises OSError."""
        self._server = ThreadingHTTPServer((host, 0), _handler(values, directory))
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """``host:port``."""
        return f"{self._server.server_address[0]!s}:{self._server.server_address[1]}"

    def close(self) -> None:
        """End a server that was started."""
        self._server.shutdown()
        self._server.server_close()

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="metadata", daemon=True).start()


def current(values: Values, directory: Path | None) -> Values:
    """``values`` with what changes: whether the slice, whose ``directory`` it is, is about to go, and why."""
    preempted = directory is not None and (directory / PREEMPTED).exists()
    maintained = directory is not None and (directory / MAINTENANCE).exists()
    event = "TERMINATE_ON_HOST_MAINTENANCE" if preempted or maintained else "NONE"
    return {**values, "instance/preempted": str(preempted).upper(), "instance/maintenance-event": event}


def changed(values: Values, directory: Path | None, path: str) -> Values:
    """The values to answer a GET of ``path`` from: with ``wait_for_change=true`` once what it asks for has changed.

    ``timeout_sec`` is how long that is waited for; with ``last_etag``, the one it was answered with, only as long as
    it is the same.
    """
    query = parse_qs(urlsplit(path).query)
    before = current(values, directory)
    if query.get("wait_for_change") != ["true"]:
        return before
    known = query.get("last_etag", [etag(answer(before, path)[2])])[0]
    seconds = query.get("timeout_sec", [""])[0]
    deadline = time.monotonic() + float(seconds) if seconds.isascii() and seconds.isdigit() else math.inf
    while True:
        now = current(values, directory)
        if etag(answer(now, path)[2]) != known or time.monotonic() >= deadline:
            return now
        time.sleep(WAIT_SECONDS)


def etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def answer(values: Values, path: str) -> tuple[HTTPStatus, str, str]:
    """(status, content type, text) of a GET of ``path`` with its query."""
    split = urlsplit(path)
    if split.path == "/":
        return HTTPStatus.OK, "application/text", "computeMetadata/\n"
    if not split.path.startswith(ROOT):
        return HTTPStatus.NOT_FOUND, "text/plain", "not found\n"
    asked = split.path.removeprefix(ROOT)
    if asked in values:
        return HTTPStatus.OK, "application/text", values[asked]
    folder = f"{asked.rstrip('/')}/" if asked.rstrip("/") else ""
    below = {name.removeprefix(folder): value for name, value in values.items() if name.startswith(folder)}
    if not below:
        return HTTPStatus.NOT_FOUND, "text/plain", f"{asked} is not there\n"
    if parse_qs(split.query).get("recursive") == ["true"]:
        return HTTPStatus.OK, "application/json", json.dumps(_tree(below))
    children = sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in below})
    return HTTPStatus.OK, "application/text", "".join(f"{child}\n" for child in children)


def _tree(values: Values) -> dict[str, Any]:
    """Paths as nested objects, their names in camelCase as Compute Engine writes them; attributes keep theirs."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *folders, leaf = path.split("/")
        at = tree
        for folder in folders:
            at = at.setdefault(_camel(folder), {})
        at[leaf if "attributes" in folders else _camel(leaf)] = value
    return tree


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(word.capitalize() for word in rest)


def _handler(values: Values, directory: Path | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "Metadata Server for VM"
        sys_version = ""

        def do_GET(self) -> None:
            if directory is not None and (directory / METADATA_DOWN).exists():
                self.close_connection = True
                return None
            if self.headers.get(FLAVOR[0]) != FLAVOR[1]:
                return self._reply(HTTPStatus.FORBIDDEN, "text/plain", "Missing Metadata-Flavor:Google header.\n")
            return self._reply(*answer(changed(values, directory, self.path), self.path))

        def _reply(self, status: HTTPStatus, content_type: str, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header(*FLAVOR)
            self.send_header("ETag", etag(text))
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
