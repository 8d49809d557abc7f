"""Slice runtimes and workers are found again by whoever looks, and never taken for others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.files import read_json, write_json
from backend.hardware import accelerator_type
from backend.host import process
from backend.host.address import Address
from backend.host.environment import runtime_environment
from backend.host.executor import LocalExecutor, RuntimeState, WorkerState
from backend.host.process import Presence
from backend.host.workers import HostedSlice

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")
ANNOUNCER = (
    sys.executable,
    "-c",
    "import os, pathlib, sys, time\n"
    "folder = pathlib.Path(sys.argv[sys.argv.index('--directory') + 1])\n"
    "(folder / 'part').write_text(os.environ['OPENBLAS_NUM_THREADS'])\n"
    "(folder / 'part').rename(folder / 'runtime.json')\n"
    "time.sleep(60)",
)
ADDRESS = Address("127.84.1.1", 8470)


def hosted(directory: Path) -> HostedSlice:
    return HostedSlice(directory, "0123456789ab", "a", "z", "local", accelerator_type("v3-8"), ADDRESS)


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "uid"
    folder.mkdir()
    yield folder
    process.end(folder, signal.SIGKILL)
    wait_until(lambda: process.presence(folder) is not Presence.ALIVE)


def test_nothing_is_there_before_a_start(directory: Path) -> None:
    assert process.presence(directory) is Presence.ABSENT
    assert process.identity(directory) is None


def test_a_process_is_seen_from_start_to_end(directory: Path) -> None:
    process.launch(directory, SLEEPER, os.environ)
    assert process.presence(directory) is Presence.ALIVE
    found = process.identity(directory)
    assert found is not None
    process.end(directory)
    wait_until(lambda: process.presence(directory) is Presence.ENDED)
    assert process.identity(directory) is None
    process.forget(directory)
    assert process.presence(directory) is Presence.ABSENT


def test_a_second_start_does_nothing(directory: Path) -> None:
    process.launch(directory, SLEEPER, os.environ)
    first = process.identity(directory)
    process.launch(directory, SLEEPER, os.environ)
    assert process.identity(directory) == first


def test_a_process_is_found_though_its_start_was_not_written_down(directory: Path) -> None:
    process.launch(directory, [*SLEEPER, "--directory", str(directory)], os.environ)
    found = process.identity(directory)
    (directory / "process.json").unlink()
    assert process.presence(directory) is Presence.ALIVE
    assert process.identity(directory) == found


def test_a_process_outlives_who_started_it(directory: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from backend.host import process\n"
        "process.launch(Path(sys.argv[1]), [sys.executable, '-c', 'import time; time.sleep(60)'], os.environ)\n"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, directory], check=False)
    assert process.presence(directory) is Presence.ALIVE
    process.end(directory)
    wait_until(lambda: process.presence(directory) is Presence.ENDED)


def test_a_reused_pid_is_not_taken_for_the_process(directory: Path) -> None:
    process.launch(directory, [sys.executable, "-c", "pass"], os.environ)
    wait_until(lambda: process.presence(directory) is Presence.ENDED)
    write_json(directory / "process.json", {"pid": os.getpid(), "started": 1.0})
    process.end(directory, signal.SIGKILL)
    assert process.presence(directory) is Presence.ENDED


def test_a_command_that_cannot_start_counts_as_never_started(directory: Path) -> None:
    with pytest.raises(FileNotFoundError):
        process.launch(directory, ["/no/such/program"], os.environ)
    assert process.presence(directory) is Presence.ABSENT


def test_a_runtime_is_ready_when_it_says_so(directory: Path) -> None:
    executor = LocalExecutor(ANNOUNCER)
    assert executor.slice_state(directory) is RuntimeState.ABSENT
    executor.start_slice(hosted(directory))
    wait_until(lambda: executor.slice_state(directory) is RuntimeState.READY)
    assert (directory / "runtime.json").read_text() == "1"
    assert (directory / "token").stat().st_mode & 0o777 == 0o600
    executor.end(directory, kill=True)
    wait_until(lambda: executor.slice_state(directory) is RuntimeState.ENDED)


def test_what_a_dead_runtime_left_does_not_make_a_new_one_ready(directory: Path) -> None:
    (directory / "runtime.json").write_text("{}")
    executor = LocalExecutor(SLEEPER)
    executor.start_slice(hosted(directory))
    assert executor.slice_state(directory) is RuntimeState.STARTING


def test_why_a_runtime_ended_is_what_it_said_last(directory: Path) -> None:
    executor = LocalExecutor((sys.executable, "-c", "import sys; sys.exit('no luck')"))
    executor.start_slice(hosted(directory))
    wait_until(lambda: executor.slice_state(directory) is RuntimeState.ENDED)
    assert executor.slice_failure(directory) == "no luck"
    write_json(directory / "runtime-error.json", {"code": 9, "message": "port taken"})
    assert executor.slice_failure(directory) == "port taken"


def test_a_worker_goes_from_absent_to_exited(directory: Path) -> None:
    executor = LocalExecutor()
    assert executor.worker_state(directory) is WorkerState.ABSENT
    job = {"command": ["sh", "-c", "exit 3"], "workingDirectory": "/", "environment": {"PATH": os.environ["PATH"]}}
    (directory / "job.json").write_text(json.dumps(job))
    executor.start_worker(directory)
    wait_until(lambda: executor.worker_state(directory) is WorkerState.EXITED)
    ended = executor.worker_exit(directory)
    assert ended is not None
    assert (ended.exit_code, ended.signal) == (3, None)
    assert ended.end_time >= ended.start_time


def test_a_worker_that_was_begun_is_never_started_again(directory: Path) -> None:
    executor = LocalExecutor()
    (directory / "worker.json").write_text("{}")
    assert executor.worker_state(directory) is WorkerState.LOST
    executor.start_worker(directory)
    assert process.presence(directory) is Presence.ABSENT


def test_what_a_lost_worker_left_is_found_by_its_environment(directory: Path) -> None:
    environment = {**os.environ, "TPUCTL_METRICS_FILE": str(directory / "metrics.jsonl")}
    with subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True) as left:
        wait_until(lambda: LocalExecutor().end_leftovers(directory) == 1)
        assert left.wait() == -signal.SIGKILL


def test_a_slice_is_the_same_whoever_started_it() -> None:
    shell = {"PATH": "/bin", "JAX_PLATFORMS": "tpu", "XLA_FLAGS": "x", "TPU_NAME": "a", "TPUCTL_SLICE_TOKEN": "secret"}
    assert runtime_environment(shell) == {"PATH": "/bin", "OPENBLAS_NUM_THREADS": "1"}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, {"a": 2})
    assert read_json(path) == {"a": 1}
    assert [child.name for child in tmp_path.iterdir()] == ["value.json"]
