"""A worker runs one command, keeps its output, and says how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from backend.host import output
from backend.host.worker import Log


class Worker:
    """A worker process started as the executor starts it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *command: str, environment: dict[str, str] | None = None, folder: str | None = None) -> None:
        self.directory.joinpath("job.json").write_text(
            json.dumps(
                {
                    "command": command,
                    "workingDirectory": folder or str(self.directory),
                    "environment": {"PATH": os.environ["PATH"]} | (environment or {}),
                }
            )
        )
        self.process = subprocess.Popen([sys.executable, "-m", "backend.host.worker", "--directory", self.directory])

    def python(self, code: str, **options: Any) -> None:
        self.start(sys.executable, "-c", code, **options)

    def wait(self, timeout: float = 15) -> dict[str, Any]:
        assert self.process is not None
        self.process.wait(timeout)
        found: dict[str, Any] = json.loads(self.directory.joinpath("exit.json").read_text())
        return {"exitCode": found["exitCode"], "signal": found["signal"]}

    def printed(self, stream: str) -> str:
        return "".join(piece.text for piece in output.read(self.directory) if piece.stream == stream)

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.printed("stdout"))

    def command_pid(self) -> int:
        return int(json.loads(self.directory.joinpath("command.json").read_text())["pid"])


def wait_until(condition: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    one = Worker(tmp_path)
    yield one
    if one.process is not None and one.process.poll() is None:
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize("status", [0, 1, 37])
def test_exit_code_is_the_commands_own(worker: Worker, status: int) -> None:
    worker.python(f"raise SystemExit({status})")
    assert worker.wait() == {"exitCode": status, "signal": None}


def test_signal_that_ends_the_command_is_told(worker: Worker) -> None:
    worker.python("import os; os.kill(os.getpid(), 11)")
    assert worker.wait() == {"exitCode": None, "signal": 11}


def test_unknown_command_ends_as_in_a_shell(worker: Worker) -> None:
    worker.start("no-such-program")
    assert worker.wait() == {"exitCode": 127, "signal": None}
    assert "cannot run no-such-program: no such file or directory" in worker.printed("stderr")


def test_file_that_is_no_program_ends_as_in_a_shell(worker: Worker) -> None:
    plain = worker.directory / "plain.txt"
    plain.write_text("text")
    worker.start(str(plain))
    assert worker.wait() == {"exitCode": 126, "signal": None}


def test_output_of_each_stream_keeps_its_order_and_bytes(worker: Worker) -> None:
    worker.python(
        "import sys\nfor i in range(20000): print(i, file=sys.stdout if i % 2 else sys.stderr)\nprint('é🙂', end='')"
    )
    worker.wait()
    assert worker.printed("stdout") == "".join(f"{i}\n" for i in range(1, 20000, 2)) + "é🙂"
    assert worker.printed("stderr") == "".join(f"{i}\n" for i in range(0, 20000, 2))


def test_text_without_a_line_end_is_seen_while_the_command_runs(worker: Worker) -> None:
    worker.python("import time; print('progress 1', end='', flush=True); time.sleep(60)")
    worker.wait_for("progress 1")


def test_output_can_be_read_on_from_an_offset(worker: Worker) -> None:
    worker.python("for i in range(5): print(i)")
    worker.wait()
    pieces = list(output.read(worker.directory))
    rest = output.read(worker.directory, pieces[1].end)
    assert "".join(piece.text for piece in rest) == "2\n3\n4\n"


def test_command_gets_its_environment_and_folder_and_nothing_else(worker: Worker, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    code = "import os; print(os.getcwd()); print(sorted(k for k in os.environ if k not in ('LC_CTYPE',)))"
    worker.python(code, environment={"MINE": "1"}, folder=str(folder))
    worker.wait()
    where, names = worker.printed("stdout").splitlines()
    assert where == str(folder)
    assert eval(names) == ["MINE", "PATH", "PYTHONUNBUFFERED", "TPUCTL_ARTIFACTS_DIR", "TPUCTL_METRICS_FILE"]  # noqa: S307


def test_cancel_lets_the_command_clean_up(worker: Worker) -> None:
    worker.python(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(3)))\n"
        "print('on', flush=True)\n"
        "time.sleep(60)"
    )
    worker.wait_for("on")
    assert worker.process is not None
    worker.process.terminate()
    assert worker.wait() == {"exitCode": 3, "signal": None}
    assert "saved" in worker.printed("stdout")


@pytest.mark.slow
def test_cancel_kills_a_command_that_does_not_listen(worker: Worker) -> None:
    worker.python("import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(60)")
    worker.wait_for("on")
    assert worker.process is not None
    started = time.monotonic()
    worker.process.terminate()
    assert worker.wait() == {"exitCode": None, "signal": signal.SIGKILL}
    assert 4 < time.monotonic() - started < 8


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's parent-death signal is Linux's")
def test_command_ends_when_its_worker_is_killed(worker: Worker) -> None:
    worker.python("import time; print('on', flush=True); time.sleep(60)")
    worker.wait_for("on")
    pid = worker.command_pid()
    assert worker.process is not None
    worker.process.kill()
    worker.process.wait()
    wait_until(lambda: gone(pid))
    assert worker.printed("stdout") == "on\n"


def test_background_processes_end_with_their_command(worker: Worker) -> None:
    worker.start("sh", "-c", "sleep 60 & echo $!")
    assert worker.wait(5) == {"exitCode": 0, "signal": None}
    wait_until(lambda: gone(int(worker.printed("stdout"))))


def test_output_stored_is_private(worker: Worker) -> None:
    worker.python("print('secret')")
    worker.wait()
    assert (worker.directory / output.LOG_FILE).stat().st_mode & 0o077 == 0


def test_a_cancellation_that_comes_before_the_worker_listens_is_not_lost(worker: Worker) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        worker.python("import time; time.sleep(60)")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert worker.process is not None
    worker.process.terminate()
    assert worker.wait() == {"exitCode": None, "signal": signal.SIGTERM}


def test_output_that_would_fill_the_disk_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.open(tmp_path)
    log.write("stdout", "kept\n")
    monkeypatch.setattr("backend.host.worker.SPARE_BYTES", 1 << 62)
    log.write("stdout", "lost\n")
    log.note_loss()
    assert [piece.text for piece in output.read(tmp_path)] == [
        "kept\n",
        "tpuctl: the disk was full: about 5 bytes of output were lost\n",
    ]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    Log.open(tmp_path).write("stdout", "whole\n")
    with (tmp_path / output.LOG_FILE).open("ab") as file:
        file.write(b'["stdout", 1.0, "to')
    assert [piece.text for piece in output.read(tmp_path)] == ["whole\n"]
