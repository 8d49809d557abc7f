"""Does a control plane that is killed at any moment lose anything, or leave anything half done?

``python tests/conformance/api_crash.py [OPERATIONS] [--seed S]`` sends so many operations of all kinds (1,000), kills
the control plane with SIGKILL at random moments meanwhile and starts it again. Every 40 operations it waits until
nothing moves and checks what must hold. Slices have stand-ins for runtimes: real processes without chips. Exit status
1 if something does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from backend.host import process
from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.server.serve import serve

FAKE_RUNTIME = Path(__file__).parents[1] / "tpuctl" / "control" / "fake_runtime.py"
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["__main__", "tpuctl.server.serve"])  # so that a start costs no imports
ZONE = "/v2alpha1/projects/local/locations/us-central2-b"
BATCH = 40
KILL_SHARE = 0.15
SETTLE_SECONDS = 60.0
NODES = [f"n{number}" for number in range(6)]
QUEUED = [f"q{number}" for number in range(3)]
QUIET = {"ACTIVE", "SUSPENDED", "FAILED"}
SPEC = {"acceleratorType": "v4-8", "runtimeVersion": "x"}
CHOICES = {
    "create": 6,
    "delete": 4,
    "stop": 2,
    "start": 2,
    "patch": 2,
    "queue": 3,
    "unqueue": 3,
    "reset": 1,
    "cancel": 2,
}
"""What is asked, and how often."""


def _serve(home: Path) -> None:
    serve(port=0, home=Home(home), executor=LocalExecutor((sys.executable, str(FAKE_RUNTIME))))


class Broken(Exception):
    """Something does not hold."""


@dataclass
class Plane:
    """A control plane that can be killed and started again."""

    home: Home
    kills: int = 0
    _process: Any = None
    _http: httpx.Client | None = None

    def start(self) -> None:
        self.home.server.unlink(missing_ok=True)
        self._process = FORKS.Process(target=_serve, args=(self.home.path,))
        self._process.start()
        deadline = time.monotonic() + 30
        while not self.home.server.exists():
            if not self._process.is_alive() or time.monotonic() > deadline:
                raise Broken("the control plane does not start again")
            time.sleep(0.005)
        if self._http is not None:
            self._http.close()
        headers = {"authorization": f"Bearer {self.home.token.read_text().strip()}"}
        url = json.loads(self.home.server.read_text())["url"]
        self._http = httpx.Client(base_url=url, headers=headers, timeout=10)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.kills += 1

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        if self._http is not None:
            self._http.close()

    @property
    def is_alive(self) -> bool:
        return bool(self._process.is_alive())

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """The answer; None if the control plane was gone."""
        assert self._http is not None
        try:
            return self._http.request(method, path, json=body)
        except httpx.TransportError:
            return None

    def listed(self, what: str) -> list[Any]:
        answer = self.ask("GET", f"{ZONE}/{what}")
        if answer is None or answer.status_code != 200:
            raise Broken(f"{what} cannot be listed: {answer and answer.text}")
        found = answer.json()
        if "nextPageToken" in found:
            raise Broken(f"too many {what} to list at once")
        return list(found.get(what, []))

    def living(self) -> set[str]:
        """The directories of slices that have a process."""
        found = self.home.path.glob("slices/*")
        return {str(one) for one in found if process.presence(one) is process.Presence.ALIVE}


@dataclass
class Story:
    """What was asked, and what was answered: the names of operations by the path and id of their requests."""

    sent: int = 0
    refused: int = 0
    unanswered: int = 0
    promised: dict[str, str] = field(default_factory=dict)
    done: int = 0


def _request(chance: random.Random, promised: list[str]) -> tuple[str, str, Any]:  # noqa: PLR0911 - one a verb
    """One at random: its method, path and body. Those that can be repeated have an id."""
    verb = chance.choices(list(CHOICES), list(CHOICES.values()))[0]
    if verb == "cancel" and promised:
        return "POST", f"/v2alpha1/{chance.choice(promised[-5:])}:cancel", {}
    node, queued, asked = (
        chance.choice(NODES),
        chance.choice(QUEUED),
        f"requestId={uuid.UUID(int=chance.getrandbits(128))}",
    )
    match verb:
        case "create":
            return "POST", f"{ZONE}/nodes?nodeId={node}&{asked}", SPEC
        case "delete":
            return "DELETE", f"{ZONE}/nodes/{node}?{asked}", None
        case "patch":
            return "PATCH", f"{ZONE}/nodes/{node}?updateMask=labels", {"labels": {"a": str(chance.random())}}
        case "queue":
            body = {"tpu": {"nodeSpec": {"nodeId": f"{queued}-n", "node": SPEC}}}
            return "POST", f"{ZONE}/queuedResources?queuedResourceId={queued}&{asked}", body
        case "unqueue":
            return "DELETE", f"{ZONE}/queuedResources/{queued}?force=true&{asked}", None
        case "reset":
            return "POST", f"{ZONE}/queuedResources/{queued}:reset", {}
    return "POST", f"{ZONE}/nodes/{node}:{verb if verb in ('start', 'stop') else 'stop'}", {}


def _send(
    plane: Plane, story: Story, method: str, path: str, body: Any, ended: Callable[[], None] = lambda: None
) -> None:
    """Send a request; one that was not answered is sent again if it has an id, and must not be done twice."""
    answer = plane.ask(method, path, body)
    if answer is None:
        story.unanswered += 1
        ended()
        plane.start()
        if "requestId" not in path:
            return
        answer = plane.ask(method, path, body)
        if answer is None:
            raise Broken("the control plane that was just started does not answer")
    if answer.status_code >= 500:
        raise Broken(f"{method} {path} -> {answer.status_code} {answer.text}")
    if answer.status_code >= 400:
        story.refused += 1
    elif name := answer.json().get("name"):
        story.promised[f"{method} {path} {story.sent if 'requestId' not in path else ''}"] = name


def _send_and_kill(plane: Plane, story: Story, chance: random.Random) -> None:
    """Send a request; now and then the control plane is killed before it, during it or soon after."""
    asked = _request(chance, list(story.promised.values()))
    if chance.random() > KILL_SHARE:
        _send(plane, story, *asked)
        return
    if not plane.is_alive:
        plane.start()
    killer = threading.Timer(chance.choice([chance.uniform(0, 0.02), chance.uniform(0, 0.3)]), plane.kill)
    killer.start()
    _send(plane, story, *asked, ended=killer.join)
    killer.join()


def settle(plane: Plane) -> None:
    """Wait until nothing moves."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        moving = [one["name"] for one in plane.listed("operations") if not one["done"]]
        moving += [one["name"] for one in plane.listed("queuedResources") if one["state"]["state"] not in QUIET]
        if not moving:
            return
        if time.monotonic() > deadline:
            raise Broken(f"still not done after {SETTLE_SECONDS:g} s: {moving}")
        time.sleep(0.02)


def check(plane: Plane, story: Story) -> None:
    """What must hold when nothing moves."""
    operations = {one["name"]: one for one in plane.listed("operations")}
    nodes = {one["name"]: one for one in plane.listed("nodes")}
    lost = [name for name in story.promised.values() if name not in operations]
    if lost:
        raise Broken(f"operations are lost: {lost}")
    for name, one in operations.items():
        if ("response" in one) == ("error" in one) or "endTime" not in one["metadata"]:
            raise Broken(f"{name} is half done: {one}")
    half = {name: one["state"] for name, one in nodes.items() if one["state"] not in ("READY", "STOPPED")}
    if half:
        raise Broken(f"nodes are half done: {half}")
    _check_story(operations, nodes)
    _check_processes(plane, nodes)
    story.done = len(operations)


def _check_story(operations: dict[str, Any], nodes: dict[str, Any]) -> None:
    """A node is there just if the last of its creates and deletes that succeeded was a create."""
    last: dict[str, Any] = {}
    for one in sorted(operations.values(), key=lambda one: one["metadata"]["endTime"]):
        about = one["metadata"]
        if "response" in one and about["verb"] in ("create", "delete") and "/nodes/" in about["target"]:
            last[about["target"]] = about["verb"]
    there = {target for target, verb in last.items() if verb == "create"}
    if there != set(nodes):
        raise Broken(f"there are {sorted(nodes)}, by the operations {sorted(there)}")


def _check_processes(plane: Plane, nodes: dict[str, Any]) -> None:
    """Each READY node has one process, and nothing else has any, or a directory."""
    wanted = {}
    for name, one in nodes.items():
        place = name.replace("projects/", "/tpuctl/v1/projects/").replace("/nodes/", "/slices/")
        answer = plane.ask("GET", place)
        assert answer is not None
        wanted[answer.json()["directory"]] = one["state"] == "READY"
    living = plane.living()
    for directory, runs in wanted.items():
        if runs != (directory in living):
            raise Broken(f"{directory} {'has no process' if runs else 'has a process'}")
    strangers = {str(one) for one in plane.home.path.glob("slices/*")} - set(wanted)
    if strangers or living - set(wanted):
        raise Broken(f"there is more than there should be: {strangers | living}")
    count = sum(str(plane.home.path) in " ".join(one) for one in _commands())
    if count != len(living):
        raise Broken(f"{count} processes run for {len(living)} slices")


def _commands() -> Iterator[list[str]]:
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = one.cmdline()
            if "--directory" in command:
                yield command


def crash(home: Path, count: int, seed: int = 0) -> tuple[Story, int]:
    """Send ``count`` operations and kill meanwhile; what was done, and how often it was killed. Raises Broken."""
    chance = random.Random(seed)  # noqa: S311
    plane, story = Plane(Home(home)), Story()
    plane.start()
    try:
        while story.sent < count:
            for _ in range(min(BATCH, count - story.sent)):
                _send_and_kill(plane, story, chance)
                story.sent += 1
            if not plane.is_alive:
                plane.start()
            settle(plane)
            check(plane, story)
        return story, plane.kills
    finally:
        plane.close()
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if any(str(home) in word for word in one.cmdline()):
                    one.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the control plane while it works.")
    parser.add_argument("operations", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        try:
            story, kills = crash(Path(home) / "home", options.operations, options.seed)
        except Broken as error:
            print(f"does not hold: {error}")
            return 1
    print(
        f"{story.sent:,} operations, {story.refused} refused, {story.unanswered} unanswered, {kills} kills in "
        f"{time.monotonic() - begun:.0f} s: {story.done} operations are done, all holds"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
