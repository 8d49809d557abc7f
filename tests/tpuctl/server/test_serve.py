"""One control plane a home, on one port; it ends when told, and streams what happens."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tpuctl.api.errors import Aborted, ApiError, FailedPrecondition, Unauthenticated, Unavailable
from tpuctl.api.home import Home
from tpuctl.api.jobs import JobChanged, JobRequest, JobState, LogRecord, MetricsLogged, Progress
from tpuctl.api.nodes import Node
from tpuctl.client import Client
from tpuctl.server import serve

Wait = Callable[..., None]


def request(code: str, **options: Any) -> JobRequest:
    given = {"accelerator_type": "v3-8", "command": [sys.executable, "-c", code], "working_directory": "/", **options}
    return JobRequest.model_validate(given)


def test_a_second_control_plane_for_a_home_is_refused(plane_process: Any) -> None:
    plane_process.start()
    with pytest.raises(Aborted, match=r"already runs for .* \(pid \d+, http://127.0.0.1:\d+\); end it with"):
        serve(port=0, home=plane_process.home)


def test_a_taken_port_is_told_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(FailedPrecondition, match=rf"port {port} on 127.0.0.1 is taken; .*--port PORT"):
            serve(port=port, home=Home(tmp_path))


def test_a_home_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FailedPrecondition, match="set TPUCTL_HOME elsewhere"):
        serve(port=0, home=Home(tmp_path / "file" / "home"))


def test_all_that_is_secret_is_private(plane_process: Any) -> None:
    plane_process.start()
    home = plane_process.home
    assert home.path.stat().st_mode & 0o077 == 0
    assert {path.name for path in home.path.iterdir() if path.is_file() and path.stat().st_mode & 0o077} == set()


def test_a_home_that_others_could_read_is_made_private(plane_process: Any) -> None:
    plane_process.home.path.mkdir(mode=0o755)
    plane_process.home.path.chmod(0o755)
    plane_process.start()
    assert plane_process.home.path.stat().st_mode & 0o077 == 0


def test_told_to_end_it_ends_and_says_so(plane_process: Any) -> None:
    client = plane_process.start()
    client.wait(client.create_node("a", Node(accelerator_type="v3-8")))
    assert plane_process.terminate() == 0
    assert not plane_process.home.server.exists()
    assert len(plane_process.living()) == 1


def test_it_ends_while_a_job_is_watched(plane_process: Any, wait_until: Wait) -> None:
    client = plane_process.start()
    client.create_job(request("import time; time.sleep(60)", name="train"))
    wait_until(lambda: client.get_job("train").state is JobState.RUNNING)
    watcher = plane_process.client()
    thread = threading.Thread(target=lambda: list(watcher.watch_job("train")))
    thread.start()
    time.sleep(0.2)
    started = time.monotonic()
    assert plane_process.terminate() == 0
    assert time.monotonic() - started < 2
    thread.join(5)


def test_the_log_is_json_lines(plane_process: Any) -> None:
    plane_process.start()
    entries = [json.loads(line) for line in plane_process.home.log.read_text().splitlines()]
    assert "serving" in {entry["message"] for entry in entries}
    assert all({"time", "level", "logger", "message"} <= entry.keys() for entry in entries)


def test_a_wrong_token_is_told(plane_process: Any) -> None:
    plane_process.start()
    with pytest.raises(Unauthenticated, match="the bearer token is wrong; the control plane's token is in"):
        plane_process.client(token="wrong").list_nodes()


def test_watching_a_job_shows_its_whole_life(plane_process: Any) -> None:
    client = plane_process.start()
    code = (
        "import json, os, sys, time\n"
        "print('out'); print('err', file=sys.stderr)\n"
        "open(os.environ['TPUCTL_METRICS_FILE'], 'a').write(json.dumps({'step': 1, 'loss': 0.5}) + '\\n')\n"
        "time.sleep(0.3)\n"
        "sys.exit(4)\n"
    )
    client.create_job(request(code, name="train"))
    events = list(client.watch_job("train"))
    states = [event.job.state for event in events if isinstance(event, JobChanged)]
    assert states == [JobState.QUEUED, JobState.RUNNING, JobState.FAILED]
    assert isinstance(events[-1], JobChanged)
    assert events[-1].job.exit_code == 4
    logged = {(event.stream, event.text) for event in events if isinstance(event, LogRecord)}
    assert logged == {("stdout", "out\n"), ("stderr", "err\n")}
    assert [event.values for event in events if isinstance(event, MetricsLogged)] == [{"step": 1, "loss": 0.5}]
    assert [event.message for event in events if isinstance(event, Progress)] == [
        "provisioning slice train (v3-8) in europe-west4-a",
        "running on slice train",
    ]


def test_watching_can_go_on_from_an_offset(plane_process: Any) -> None:
    client = plane_process.start()
    client.create_job(request("for i in range(5000): print(i)", name="train"))
    events = list(client.watch_job("train"))
    assert isinstance(events[-1], JobChanged)
    assert events[-1].job.state is JobState.SUCCEEDED
    seen = [event for event in events if isinstance(event, LogRecord)]
    assert "".join(event.text for event in seen) == "".join(f"{i}\n" for i in range(5000))
    rest = [event for event in client.watch_job("train", [seen[2000].offset]) if isinstance(event, LogRecord)]
    assert rest == seen[2001:]
    assert list(client.job_logs("train", [seen[-2].offset])) == seen[-1:]


def test_watching_an_ended_job_shows_how_it_ended(plane_process: Any) -> None:
    client = plane_process.start()
    client.create_job(request("print('x')", name="train"))
    list(client.watch_job("train"))
    events = list(client.watch_job("train"))
    assert [event.type for event in events] == ["log", "job"]


def test_calls_are_answered_while_many_jobs_are_watched(plane_process: Any, wait_until: Wait) -> None:
    client = plane_process.start()
    client.create_job(request("import time; time.sleep(60)", name="train"))
    wait_until(lambda: client.get_job("train").state is JobState.RUNNING)

    def follow() -> None:
        try:
            list(plane_process.client().watch_job("train"))
        except ApiError:
            return

    threads = [threading.Thread(target=follow) for _ in range(45)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    started = time.monotonic()
    client.list_nodes()
    assert time.monotonic() - started < 1.0
    client.cancel_job("train")
    for thread in threads:
        thread.join(15)


def test_another_program_on_the_port_is_not_taken_for_a_control_plane() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")

        thread = threading.Thread(target=answer)
        thread.start()
        with Client(url, "token") as client, pytest.raises(Unavailable, match="is not a tpuctl control plane"):
            client.list_nodes()
        thread.join()


def test_an_unreachable_control_plane_is_told_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    with (
        Client(url, "token") as client,
        pytest.raises(Unavailable, match=r"does not answer .*; start it with `tpuctl up`"),
    ):
        client.list_nodes()


def test_the_module_exits_with_one_line_when_it_cannot_serve(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        environment = {**os.environ, "TPUCTL_HOME": str(tmp_path), "TPUCTL_PORT": port}
        ended = subprocess.run(
            [sys.executable, "-m", "tpuctl.server"], env=environment, capture_output=True, text=True, check=False
        )
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert f"port {port} on 127.0.0.1 is taken" in ended.stderr


def test_requests_name_no_secret_in_the_log(plane_process: Any) -> None:
    client = plane_process.start()
    client.list_nodes()
    assert plane_process.home.token.read_text().strip() not in plane_process.home.log.read_text()
