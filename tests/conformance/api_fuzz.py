"""Does any request, however malformed, make the API fail, or change something though it is refused?

``python tests/conformance/api_fuzz.py [COUNT] [--seed S]`` sends so many requests (100,000) to every method of every
version and to tpuctl's own API, in this process, and prints what became of them. There are to be no 5xx but 501, and
after a refusal nothing in the store or in the home may be other than before. Exit status 1 if that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tpuctl.api.api_faults import ApiFault
from tpuctl.api.fault_kinds import KINDS
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobRequest
from tpuctl.api.messages import fields
from tpuctl.api.model import Model
from tpuctl.api.nodes import NodeSpec, NodeState
from tpuctl.api.status import FaultRequest
from tpuctl.control import nodes
from tpuctl.control.plane import ControlPlane
from tpuctl.server.app import application
from tpuctl.server.methods import METHODS, VERSIONS

TOKEN = "fuzz"  # noqa: S105
BATCH = 25
"""Requests that hypothesis draws at a time."""
REFUSED = 400
UNIMPLEMENTED = 501

SCALARS: list[Any] = [
    "", "a", "v3-8", "v4-8", "v4-32", "v5litepod-4", "V4", "2x2x1", "2x2", "READY", "V2_ALPHA1", "-", ".", "..", "/",
    "\x00", "a\x00b", "\ud800", "\udfff\ud800", "é", "\U0001f600", "x" * 70, "x" * 600, "A", "%", "a b", "a\nb",
    "0s", "1s", "0.5s", "999999999999s", "-1s", "1e3s", "s", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59-14:00", "2026-13-01T00:00:00Z",
    "1e400", "NaN", "Infinity", "true", "null", "9" * 400, "-1", "1", "0", "__proto__", "@type", "${x}", "{}", "[]",
    "projects/p/locations/europe-west4-a/nodes/n", "a,b,,c", "*", "labels", "networkConfig.enableExternalIps",
    0, 1, -1, 2, 7, 64, 65, 2**31, 2**32, 2**53, 2**63, -(2**63), 2**64, 2**70, 10**400, 0.0, -0.0, 0.5, 1.5, 1e308,
    float("nan"), float("inf"), float("-inf"), True, False, None, [], {}, [[]], [{}], [None], [[[]]], {"": ""},
    {"a": None}, {"a": {"b": []}}, {"a": 1}, ["a", 1], {"\ud800": "\ud800"},
]  # fmt: skip
PATHS = (
    "", "a", "n0", "n1", "q0", "-", "mars", "europe-west4-a", "us-central2-b", "local", "1", "x" * 300, "A", "é",
    "\x00", "a b", "%", "..", "a:b", "a:", ":", "\ud800", "a?b", "a#b", "projects", "nodes",
)  # fmt: skip
RIGHT: dict[str, list[Any]] = {
    "accelerator_type": ["v3-8", "v4-8", "v3-32", "v5litepod-4"],
    "node_id": ["a", "b"],
    "runtime_version": ["x"],
    "command": [["true"]],
    "working_directory": ["/"],
    "node_count": [2, 3],
}
"""What some fields ask for, so that requests get further."""
RAW = (
    b"", b"{", b"}", b"[]", b"null", b"0", b'"a"', b"\xff\xfe", b'{"a":', b"{'a':1}", b"[" * 5000, b'{"a":' * 3000,
    b"\x00", b"NaN", b'{"acceleratorType":"v3-8","acceleratorType":3}', b"{}{}", b"\xef\xbb\xbf{}", b"1" * 5000,
    b'{"labels":{"a":1e999}}', b'{"\\ud800":1}',
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A method: ``path`` has its places in braces."""

    name: str
    http: str
    path: str
    version: str
    query: tuple[str, ...] = ()
    body: type[Model] | None = None


@dataclass(frozen=True)
class Request:
    target: Target
    http: str
    path: str
    query: str
    body: bytes
    authorization: str


def targets() -> list[Target]:
    found = [
        Target(
            f"{version} {method.id}",
            method.http,
            f"/{version}/projects/{{project}}/locations{method.path}",
            version,
            tuple(method.parameters(version)),
            method.message(version),
        )
        for version in VERSIONS
        for method in METHODS
        for _ in range(9 if version in method.versions else 1)
    ]
    base = "/tpuctl/v1"
    one = f"{base}/projects/{{project}}"
    slices = f"{one}/locations/{{zone}}/slices/{{id}}"
    own = [
        ("GET", f"{base}/status", None),
        ("GET", f"{base}/faults", None),
        ("POST", f"{base}/faults", ApiFault),
        ("DELETE", f"{base}/faults/{{id}}", None),
        ("GET", slices, None),
        ("POST", f"{slices}:fault", FaultRequest),
        ("GET", f"{one}/jobs", None),
        ("POST", f"{one}/jobs", JobRequest),
        ("GET", f"{one}/jobs/{{id}}", None),
        ("DELETE", f"{one}/jobs/{{id}}", None),
        ("POST", f"{one}/jobs/{{id}}:cancel", None),
        ("GET", f"{one}/jobs/{{id}}/logs", None),
        ("GET", f"{one}/jobs/{{id}}:watch", None),
    ]
    asked = ("project", "worker", "processes", "offset")
    return found + [Target(f"tpuctl {path[len(base) :]}", http, path, "v2", asked, body) for http, path, body in own]


scalars = st.sampled_from(SCALARS) | st.text(max_size=8) | st.integers() | st.floats()


@st.composite
def messages(draw: st.DrawFn, kind: type[Model], version: str, depth: int = 0) -> Any:
    """Something like a message of that kind: some of its fields, right or wrong."""
    known = list(fields(kind, version).values())
    value: dict[str, Any] = {}
    for one in draw(st.lists(st.sampled_from(known), max_size=5, unique_by=lambda f: f.name)) if known else []:
        if one.kind is not None and depth < 5 and draw(st.integers(0, 5)):
            inner = draw(messages(one.kind, version, depth + 1))
            value[one.name] = draw(st.sampled_from([inner, [inner], [inner, inner]]))
        elif one.name in RIGHT and draw(st.booleans()):
            value[one.name] = draw(st.sampled_from(RIGHT[one.name]))
        elif one.name == "kind":
            value[one.name] = draw(st.sampled_from([*KINDS, "x"]))
        else:
            value[one.name] = draw(scalars)
    if draw(st.integers(0, 9)) == 0:
        value[draw(st.sampled_from(["x", "", "\ud800", "node_id", "@type", "name", "acceleratorType"]))] = draw(scalars)
    return value


@st.composite
def requests(draw: st.DrawFn, among: list[Target]) -> Request:
    target = draw(st.sampled_from(among))
    places = {"project": "local", "zone": draw(st.sampled_from(["europe-west4-a", "us-central2-b", *PATHS[:8]]))}
    if draw(st.integers(0, 7)) == 0:
        places["project"] = draw(st.sampled_from(PATHS) | st.text(max_size=5))
    places["id"] = draw(st.sampled_from(PATHS) | st.text(max_size=5))
    path = target.path.format_map({name: _quoted(text) for name, text in places.items()})
    if draw(st.integers(0, 30)) == 0:
        path += draw(st.sampled_from(["/", ":", ":x", "/x", ":start", "//", "%00", "/../.."]))
    names = st.sampled_from([*target.query, "alt", "x", "\x00", "node_id", "force", "pageSize", "pageToken"])
    asked = draw(st.lists(st.tuples(names, scalars), max_size=3)) if draw(st.integers(0, 2)) == 0 else []
    if "nodeId" in target.query:
        asked.append(("nodeId", draw(st.sampled_from(PATHS))))
    query = urlencode([(_text(name), _text(value)) for name, value in asked])
    body = b""
    if draw(st.integers(0, 3)) == 0:
        body = draw(st.sampled_from(RAW) | st.binary(max_size=20))
    elif target.body is not None:
        body = json.dumps(draw(messages(target.body, target.version))).encode()
    elif target.http != "GET":
        body = json.dumps(draw(scalars)).encode()
    http = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"])) if draw(st.integers(0, 30)) == 0 else None
    given_token = TOKEN if draw(st.integers(0, 40)) else draw(st.sampled_from(["", "x", "\x00", "é" * 50]))
    return Request(target, http or target.http, path, query, body, f"Bearer {given_token}")


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _text(value: Any) -> bytes:
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")


@dataclass
class Outcome:
    """How many requests were answered with what, and what should not have been."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> int:
        return self.statuses.total()

    @property
    def is_good(self) -> bool:
        return not self.failures and not self.changed


class Fuzz:
    """A control plane whose loop does not run, so that nothing changes but by requests."""

    def __init__(self, home: Path) -> None:
        self.plane = ControlPlane(Home(home))
        self.app = application(self.plane, TOKEN)
        self.outcome = Outcome()
        for number in range(2):
            with self.plane.store.change() as change:
                spec = NodeSpec(accelerator_type="v3-8")
                made = nodes.create(change, "local", "europe-west4-a", f"n{number}", spec)
                change.replace(made, state=(NodeState.READY, NodeState.STOPPED)[number], operation=None)

    async def send(self, asked: Request) -> None:
        before = self._state()
        status, said = await _call(self.app, asked)
        self.outcome.statuses[status] += 1
        where = (
            f"{asked.target.name}: {asked.http} {asked.path}?{asked.query} {asked.body[:300]!r} -> {status} {said!r}"
        )
        if status >= 500 and status != UNIMPLEMENTED:
            self.outcome.failures.setdefault(f"{asked.target.name} {said[:80]!r}", where)
        if status >= REFUSED and self._state() != before:
            self.outcome.changed.setdefault(asked.target.name, where)
        if self.plane.api_faults.any:  # what strikes is not this test's question
            self.plane.api_faults.clear()

    def _state(self) -> tuple[int, list[str]]:
        home = self.plane.home.path
        return self.plane.store.version, sorted(str(path) for path in home.glob("*/*"))


async def _call(app: Any, asked: Request) -> tuple[int, bytes]:
    """Status and body; the application is called as an ASGI server would."""
    raw = asked.path.encode("ascii")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.http,
        "scheme": "http",
        "path": _unquoted(asked.path),
        "raw_path": raw,
        "query_string": asked.query.encode("ascii"),
        "root_path": "",
        "headers": [(b"authorization", asked.authorization.encode("utf-8")), (b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    said, status = bytearray(), 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": asked.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        said.extend(message.get("body", b""))

    try:
        await app(scope, receive, send)
    except Exception as error:  # noqa: BLE001 - starlette raises again what it has answered with 500
        return 500, f"{type(error).__name__}: {error}".encode()
    return status, bytes(said[:300])


def _unquoted(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path)


def fuzz(home: Path, count: int, number: int = 0) -> Outcome:
    """Send ``count`` requests, the same for the same ``number``."""
    fuzzed = Fuzz(home)
    loop = asyncio.new_event_loop()
    among = targets()

    @seed(number)
    @settings(
        max_examples=-(-count // BATCH),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(requests(among), min_size=BATCH, max_size=BATCH))
    def send_all(batch: list[Request]) -> None:
        for asked in batch:
            loop.run_until_complete(fuzzed.send(asked))

    send_all()
    loop.close()
    fuzzed.plane.store.close()
    return fuzzed.outcome


def main() -> int:
    parser = argparse.ArgumentParser(description="Send malformed requests to the API.")
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable()
    begun, outcome = time.monotonic(), Outcome()
    with tempfile.TemporaryDirectory() as home:
        for part in range(-(-options.count // 5000)):
            place = Path(home) / str(part)
            place.mkdir()
            some = fuzz(place, min(5000, options.count - 5000 * part), options.seed + part)
            outcome.statuses += some.statuses
            outcome.failures |= some.failures
            outcome.changed |= some.changed
            print(f"{outcome.sent:,} sent", file=sys.stderr)
    for status, times in sorted(outcome.statuses.items()):
        print(f"{status} {times:>8,}")
    for what, found in (("failed", outcome.failures), ("changed something though refused", outcome.changed)):
        for text in list(found.values())[:40]:
            print(f"{what}: {text}")
    print(
        f"{outcome.sent:,} requests in {time.monotonic() - begun:.0f} s: {len(outcome.failures)} kinds of failure, "
        f"{len(outcome.changed)} changed something though refused"
    )
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
