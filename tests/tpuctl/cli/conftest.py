"""A control plane that answers from memory, and ways to run the command line against it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tpuctl.cli import entry

TOKEN = "of-a-test"  # noqa: S105
PROJECT = "projects/local"
ZONE = "locations/europe-west4-a"
GIB = 1 << 30


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


class FakePlane:
    """Serves ``answers`` (path to JSON) and remembers ``requests`` (method, path, body).

    ``streams`` are lists of events. At an event of type "hold" a stream waits until ``held`` is set; at a "cut" it
    breaks off, and the next watch gets the rest.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.requests: list[tuple[str, str, Any]] = []
        self.answers: dict[str, Any] = {}
        self.streams: dict[str, list[dict[str, Any]]] = {}
        self.held = threading.Event()
        self.held.set()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.set("/tpuctl/v1/ping", {"pid": os.getpid()})
        self.set(f"/v2/{PROJECT}/locations/-/nodes", {"nodes": []})

    def start(self) -> None:
        self.home.mkdir(exist_ok=True)
        (self.home / "token").write_text(TOKEN)
        (self.home / "server.json").write_text(json.dumps({"pid": os.getpid(), "started": 0.0, "url": self.url}))
        self.thread.start()

    def stop(self) -> None:
        self.held.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def set(self, path: str, answer: Any, method: str = "GET", status: int = 200) -> None:
        self.answers[f"{method} {path}"] = (status, answer)

    def add_node(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """A READY v3-8, listed and described."""
        node = {
            "name": f"{PROJECT}/{ZONE}/nodes/{name}",
            "acceleratorType": "v3-8",
            "state": "READY",
            "health": "HEALTHY",
            "networkEndpoints": [{"ipAddress": "127.84.0.1", "port": 8470}],
            "createTime": datetime.now(UTC).isoformat(),
            "runtimeVersion": "tpu-ubuntu2204-base",
        } | fields
        listed = self.answers.get(f"GET /v2/{PROJECT}/locations/-/nodes", (200, {"nodes": []}))[1]["nodes"]
        self.set(f"/v2/{PROJECT}/locations/-/nodes", {"nodes": [*listed, node]})
        self.set(f"/v2/{PROJECT}/{ZONE}/nodes/{name}", node)
        self.set(f"/tpuctl/v1/{PROJECT}/{ZONE}/slices/{name}", slice_detail(name))
        return node

    def add_job(self, name: str, /, **fields: Any) -> dict[str, Any]:
        """A job, listed and described; SUCCEEDED unless ``fields`` say otherwise."""
        job = job_resource(name) | fields
        listed = self.answers.get(f"GET /tpuctl/v1/{PROJECT}/jobs", (200, {"jobs": []}))[1]["jobs"]
        self.set(f"/tpuctl/v1/{PROJECT}/jobs", {"jobs": [*listed, job]})
        self.set(f"/tpuctl/v1/{PROJECT}/jobs/{name}", job)
        return job

    def _handler(plane) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - the handler below has a self of its own
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                plane.requests.append((self.command, self.path, body))
                path = self.path.partition("?")[0]
                if self.headers.get("authorization") != f"Bearer {TOKEN}":
                    self.reply(
                        401, error_body(401, "UNAUTHENTICATED", "the token is wrong; it is in TPUCTL_HOME/token")
                    )
                elif self.command == "GET" and path in plane.streams:
                    self.stream(plane.streams[path])
                elif f"{self.command} {path}" in plane.answers:
                    self.reply(*plane.answers[f"{self.command} {path}"])
                else:
                    resource = path.removeprefix("/v2/").removeprefix("/tpuctl/v1/").replace("/slices/", "/nodes/")
                    self.reply(404, not_found_body(resource))

            do_GET = do_POST = do_DELETE = answer  # noqa: N815 - named by http.server

            def reply(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def stream(self, events: list[dict[str, Any]]) -> None:
                self.send_response(200)
                self.send_header("connection", "close")
                self.end_headers()
                for event in events:
                    if event.get("type") == "cut":
                        del events[: events.index(event) + 1]
                        break
                    if event.get("type") == "hold":
                        plane.held.wait(30)
                        continue
                    self.wfile.write(json.dumps(event).encode() + b"\n")
                    self.wfile.flush()
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler


def error_body(code: int, status: str, message: str, details: list[Any] | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": details or []}}


def not_found_body(resource: str) -> dict[str, Any]:
    detail = {"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceName": resource}
    return error_body(404, "NOT_FOUND", f"Resource '{resource}' was not found", [detail])


def slice_telemetry(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "zone": "europe-west4-a",
        "type": "v3-8",
        "state": "READY",
        "health": "HEALTHY",
        "endpoint": "127.84.0.1:8470",
        "chips": 4,
        "cores": 8,
        "hbmBytesInUse": 32 * GIB,
        "hbmBytesLimit": 128 * GIB,
        "mxuBusyShare": 0.125,
        "programsRun": 90,
        "deviceSeconds": 0.18,
        "job": "mnist-abc12",
    }


def slice_detail(name: str) -> dict[str, Any]:
    core = {"hbmBytesInUse": 4 * GIB, "hbmBytesLimit": 16 * GIB, "hbmBytesPeak": 5 * GIB}
    return slice_telemetry(name) | {
        "perCore": [{"id": number} | core for number in range(8)],
        "directory": "/home/me/slices/1",
        "socket": "/home/me/slices/1/link.sock",
        "pid": 4711,
        "environment": {"TPUCTL_SLICE": "unix:///home/me/slices/1/link.sock", "TPU_NAME": "it's"},
        "environmentTcp": {"TPUCTL_SLICE": "tcp://127.84.0.1:8470", "TPUCTL_SLICE_TOKEN": "secret"},
    }


def job_resource(name: str) -> dict[str, Any]:
    last = {"epoch": 2, "epochs": 2, "step": 15, "steps": 15, "loss": 0.25, "accuracy": 0.96}
    return {
        "name": name,
        "uid": "1",
        "project": "local",
        "zone": "europe-west4-a",
        "state": "SUCCEEDED",
        "command": ["python", "train.py"],
        "workingDirectory": "/work",
        "slice": name,
        "acceleratorType": "v3-8",
        "ephemeralSlice": True,
        "exitCode": 0,
        "createTime": datetime.now(UTC).isoformat(),
        "metrics": last,
        "metricsTail": [last | {"time": 100.0 + 0.6 * row, "step": 3 * row, "loss": 1 / row} for row in range(1, 6)],
        "artifacts": ["/home/me/jobs/1/artifacts/curves.png"],
        "hostSeconds": 12.5,
        "deviceSeconds": 0.03,
        "directory": "/home/me/jobs/1",
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty TPUCTL_HOME, and an environment that says nothing else."""
    for name in ("TPUCTL_TOKEN", "TPUCTL_PROJECT", "TPUCTL_ZONE", "TPUCTL_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TPUCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SHELL", "/bin/bash")
    return tmp_path / "home"


@pytest.fixture
def plane(home: Path) -> Iterator[FakePlane]:
    """A running control plane for this home."""
    fake = FakePlane(home)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def tpuctl(home: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command line in this process, as the entry point does."""

    def run(*arguments: str) -> Result:
        exit_code = entry.run(list(arguments))
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Result(exit_code, out, err)

    return run
