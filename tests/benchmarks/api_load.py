"""How fast is the API, beside moto's server on the same machine in the same minutes?

``python tests/benchmarks/api_load.py PATH_OF_MOTO_SERVER`` lets 200 clients create and list in turns: nodes here, EC2
instances and volumes there (``pip install 'moto[server,ec2]'`` in an environment of its own). Slices are stand-ins
without a process, as moto's instances are. Without the path it measures only this API: 10,000 nodes are listed in
pages, and a control plane is started with 10,000 nodes and as many operations in its store.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from backend.host.executor import LocalExecutor, RuntimeState
from backend.host.process import ProcessId
from backend.host.workers import HostedSlice
from tpuctl.api.home import Home
from tpuctl.api.nodes import NodeState
from tpuctl.server.serve import serve
from tpuctl.store import NodeRow, OperationRow, Store

CLIENTS = 200
CALLS = 2
"""Of each client, half of them creates."""
ROUNDS = 2
PAGE = 100
MANY = 10_000
ZONE = "projects/local/locations/europe-west4-a"
AWS = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=x"


class NoProcesses(LocalExecutor):
    """Slices that are READY as soon as they are started, and run nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._started: set[Path] = set()

    def start_slice(self, hosted: HostedSlice) -> None:
        self._started.add(hosted.directory)

    def slice_state(self, directory: Path) -> RuntimeState:
        return RuntimeState.READY if directory in self._started else RuntimeState.ABSENT

    def end(self, directory: Path, *, kill: bool = False) -> None:
        self._started.discard(directory)

    def is_alive(self, directory: Path) -> bool:
        return directory in self._started

    def identity(self, directory: Path) -> ProcessId | None:
        return None


@dataclass(frozen=True)
class Request:
    """``is_right`` says whether an answer is one."""

    head: str
    body: str
    is_right: Callable[[int, bytes], bool]

    def data(self) -> bytes:
        return f"{self.head}\r\ncontent-length: {len(self.body)}\r\n\r\n{self.body}".encode()


@dataclass(frozen=True)
class Side:
    """A server under load: what the number-th request of a client is."""

    name: str
    port: int
    request: Callable[[str, int], Request]


@dataclass(frozen=True)
class Measured:
    per_second: float
    p50_ms: float
    p99_ms: float


async def _client(side: Side, name: str, seconds: list[float]) -> None:
    """Ask in turns; connections are kept as long as the server keeps them."""
    reader = writer = None
    for number in range(CALLS):
        asked = side.request(name, number)
        begun = time.perf_counter()
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
        assert reader is not None
        writer.write(asked.data())
        status, body, keeps = await _answer(reader)
        seconds.append(time.perf_counter() - begun)
        if not asked.is_right(status, body):
            raise RuntimeError(f"{side.name} answers {status}: {body[:300]!r}")
        if not keeps:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    """Status, body, and whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = head.split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    if "content-length" not in headers:
        return int(lines[0].split()[1]), await reader.read(), False
    body = await reader.readexactly(int(headers["content-length"]))
    closes = headers.get("connection") == "close" or lines[0].startswith("http/1.0")
    return int(lines[0].split()[1]), body, not closes


def load(side: Side, mark: str) -> Measured:
    """200 clients at once."""

    async def run() -> Measured:
        seconds: list[float] = []
        begun = time.perf_counter()
        await asyncio.gather(*(_client(side, f"{mark}-{number}", seconds) for number in range(CLIENTS)))
        took = time.perf_counter() - begun
        seconds.sort()
        p50, p99 = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
        return Measured(len(seconds) / took, 1e3 * p50, 1e3 * p99)

    return asyncio.run(run())


def ours(port: int, token: str) -> Side:
    def request(name: str, number: int) -> Request:
        common = f"host: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json"
        if number % 2:
            head = f"GET /v2/{ZONE}/nodes?pageSize={PAGE} HTTP/1.1\r\n{common}"
            return Request(head, "", lambda status, body: status == 200 and b'"nodes"' in body)
        head = f"POST /v2/{ZONE}/nodes?nodeId={name}-{number} HTTP/1.1\r\n{common}"
        body = json.dumps({"acceleratorType": "v3-8", "runtimeVersion": "tpu-ubuntu2204-base"})
        return Request(head, body, lambda status, body: status == 200 and b'"metadata"' in body)

    return Side("tpuctl nodes", port, request)


def moto(port: int, what: str, create: str, describe: str) -> Side:
    def request(name: str, number: int) -> Request:
        head = f"POST / HTTP/1.1\r\nhost: x\r\nauthorization: {AWS}\r\ncontent-type: application/x-www-form-urlencoded"
        action = f"{describe}&MaxResults={PAGE}" if number % 2 else create
        body = f"Version=2016-11-15&Action={action}"
        return Request(head, body, lambda status, body: status == 200 and b"requestId" in body)

    return Side(f"moto {what}", port, request)


MOTO = (
    ("EC2 instances", "RunInstances&ImageId=ami-12c6146b&MinCount=1&MaxCount=1", "DescribeInstances"),
    ("EC2 volumes", "CreateVolume&Size=1&AvailabilityZone=us-east-1a", "DescribeVolumes"),
)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running_moto(path: str) -> Iterator[int]:
    port = _free_port()
    process = subprocess.Popen(
        [path, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        while not _listens(port):
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def _serve(home: Path) -> None:
    logging.disable(logging.INFO)
    serve(port=0, home=Home(home), executor=NoProcesses())


@contextlib.contextmanager
def running(home: Path) -> Iterator[tuple[int, str, float]]:
    """The control plane's port and token, and the seconds from the start of its process until it answers."""
    spawn = multiprocessing.get_context("spawn")
    begun = time.perf_counter()
    process = spawn.Process(target=_serve, args=(home,))
    process.start()
    try:
        while not (home / "server.json").exists():
            time.sleep(0.002)
        url = json.loads((home / "server.json").read_text())["url"]
        port, token = int(url.rsplit(":", 1)[-1]), (home / "token").read_text().strip()
        _get(port, token, f"/v2/{ZONE}/nodes?pageSize=1")
        yield port, token, time.perf_counter() - begun
    finally:
        process.terminate()
        process.join(20)


def _get(port: int, token: str, path: str) -> bytes:
    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode())
        status, body, _ = await _answer(reader)
        writer.close()
        assert status == 200, body
        return body

    return asyncio.run(ask())


def fill(home: Path, count: int) -> None:
    """So many nodes, STOPPED, and as many operations."""
    store = Store(Home(home).database)
    spec = {"runtimeVersion": "tpu-ubuntu2204-base", "networkConfig": {"network": "default"}}
    with store.change() as change:
        for number in range(count):
            uid, now, name = uuid.uuid4().hex[:12], time.time(), f"n{number}"
            place = {"project": "local", "zone": "europe-west4-a"}
            target = f"{ZONE}/nodes/{name}"
            change.insert(
                OperationRow(
                    **place, name=f"operation-{number}", target=target, verb="create", create_time=now, done=True
                )
            )
            change.insert(
                NodeRow(
                    **place,
                    uid=uid,
                    name=name,
                    accelerator_type="v3-8",
                    topology="2x2",
                    state=NodeState.STOPPED,
                    host=f"127.84.{number // 254}.{number % 254 + 1}",
                    port=8470,
                    first_host=number,
                    num_hosts=1,
                    create_time=now,
                    spec=spec,
                )
            )
    store.close()


def list_all(port: int, token: str) -> tuple[int, float]:
    """How many nodes there are, and the seconds that it takes to list them in pages of 1,000."""
    begun, found, after = time.perf_counter(), 0, ""
    while True:
        page = json.loads(_get(port, token, f"/v2/{ZONE}/nodes?pageSize=1000{after}"))
        found += len(page["nodes"])
        if not page.get("nextPageToken"):
            return found, time.perf_counter() - begun
        after = f"&pageToken={page['nextPageToken']}"


def many() -> None:
    with tempfile.TemporaryDirectory() as place:
        empty, full = Path(place) / "empty", Path(place) / "full"
        for home in (empty, full):
            home.mkdir()
        fill(full, MANY)
        starts: dict[Path, list[float]] = {empty: [], full: []}
        lists = []
        for _ in range(ROUNDS):
            for home, taken in starts.items():
                with running(home) as (port, token, seconds):
                    taken.append(seconds)
                    if home is full:
                        for _ in range(2):
                            found, took = list_all(port, token)
                            assert found == MANY
                            lists.append(took)
        fast, slow = (statistics.median(taken) for taken in starts.values())
        print(f"{MANY:,} nodes listed in pages of 1,000: {statistics.median(lists):.2f} s (best {min(lists):.2f})")
        print(
            f"start until the first answer with {MANY:,} nodes and operations: {slow:.2f} s "
            f"(best {min(starts[full]):.2f}), with none {fast:.2f} s"
        )


def beside(path: str) -> None:
    with tempfile.TemporaryDirectory() as place, running_moto(path) as other:
        home = Path(place)
        with running(home) as (port, token, _):
            sides = [ours(port, token), *(moto(other, *row) for row in MOTO)]
            taken: dict[str, list[Measured]] = {side.name: [] for side in sides}
            for turn in range(ROUNDS):
                for side in sides:
                    taken[side.name].append(load(side, f"r{turn}"))
                    print(f"{side.name}: {taken[side.name][-1]}", file=sys.stderr)
    print(f"{'':<20} {'requests/s':>12} {'p50':>9} {'p99':>9} {'faster':>8} {'p99 better':>11}")
    mine = taken[sides[0].name]
    for name, rows in taken.items():
        rate, p50, p99 = (
            statistics.median(getattr(row, what) for row in rows) for what in ("per_second", "p50_ms", "p99_ms")
        )
        faster = statistics.median(one.per_second / row.per_second for one, row in zip(mine, rows, strict=True))
        better = statistics.median(row.p99_ms / one.p99_ms for one, row in zip(mine, rows, strict=True))
        print(f"{name:<20} {rate:>12,.0f} {p50:>6,.0f} ms {p99:>6,.0f} ms {faster:>7.1f}x {better:>10.1f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the API under load.")
    parser.add_argument("moto_server", nargs="?", help="the path of moto_server; without, the load is left out")
    options = parser.parse_args()
    many()
    if options.moto_server:
        beside(options.moto_server)


if __name__ == "__main__":
    main()
