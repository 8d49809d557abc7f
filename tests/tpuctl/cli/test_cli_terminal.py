"""In a real terminal: colour, live progress, and what Ctrl-C means."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pexpect
import pytest

JOBS = "/tpuctl/v1/projects/local/jobs"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def terminal(plane, tmp_path):
    """Start `tpuctl` in a terminal of its own; whatever is left of it is ended."""
    started = []

    def start(*arguments, **variables):
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        child = pexpect.spawn(
            sys.executable,
            ["-m", "tpuctl", *arguments],
            env=kept | {"TERM": "xterm-256color"} | variables,
            cwd=str(tmp_path),
            dimensions=(40, 140),
            timeout=20,
            encoding="utf-8",
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored where CI runs in the background
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


@pytest.fixture
def running_job(plane, tmp_path):
    """A job that logs and then goes on until it is let go."""
    Path(tmp_path / "train.py").write_text("")
    job = plane.add_job("train-1")
    plane.set(JOBS, job | {"state": "QUEUED"}, "POST")
    plane.set(f"{JOBS}/train-1:cancel", job | {"state": "RUNNING"}, "POST")
    plane.held.clear()
    plane.streams[f"{JOBS}/train-1:watch"] = [
        {"type": "progress", "message": "provisioning slice train-1"},
        {"type": "job", "job": job | {"state": "RUNNING"}},
        {"type": "log", "offset": 1, "stream": "stdout", "time": 0.0, "text": "hello\n"},
        {"type": "metrics", "values": {"epoch": 2, "epochs": 4, "step": 5, "steps": 10, "loss": 0.5, "time": 1.0}},
        {"type": "hold"},
        {"type": "log", "offset": 2, "stream": "stdout", "time": 0.0, "text": "10%\r20%\n"},
        {"type": "job", "job": job},
    ]
    return job


def interrupt(child):
    """Ctrl-C, once the program waits for input: a signal just before read() is only seen after it."""
    time.sleep(0.5)
    child.sendintr()


def cancelled(plane):
    return ("POST", f"{JOBS}/train-1:cancel") in {request[:2] for request in plane.requests}


def test_states_have_colour_in_a_terminal_but_not_with_no_color(plane, terminal):
    plane.add_node("demo")
    child = terminal("list", "slices")
    child.expect(pexpect.EOF)
    assert "\x1b[32mREADY" in child.before
    child = terminal("list", "slices", NO_COLOR="1")
    child.expect(pexpect.EOF)
    assert "READY" in child.before
    assert "\x1b" not in child.before


def test_progress_is_drawn_from_metrics_and_output_passes_through_untouched(plane, terminal, running_job):
    child = terminal("run", "job", "train.py")
    child.expect("✓.*Provisioning slice train-1")
    child.expect("hello\r\n")
    child.expect("epoch.*2/4")
    child.expect("step.*5/10")
    child.expect("loss.*0.5")
    plane.held.set()
    child.expect_exact("10%\r20%\r\n")
    child.expect("Job train-1 succeeded")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_ctrl_c_offers_to_detach(plane, terminal, running_job):
    child = terminal("run", "job", "train.py")
    child.expect("5/10")
    child.sendintr()
    child.expect(r"\[d\]etach, \[c\]ancel, or Enter to go on\? ")
    child.sendline("d")
    child.expect("tpuctl logs train-1 -f")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert not cancelled(plane)


def test_enter_goes_on_where_it_was(plane, terminal, running_job):
    child = terminal("run", "job", "train.py")
    child.expect("5/10")
    child.sendintr()
    child.expect("go on")
    plane.held.set()
    child.sendline("")
    child.expect("Job train-1 succeeded")
    assert [path for _, path, _ in plane.requests if ":watch" in path] == [
        f"{JOBS}/train-1:watch?offset=0",
        f"{JOBS}/train-1:watch?offset=1",
    ]


def test_a_second_ctrl_c_cancels_and_exits_130(plane, terminal, running_job):
    child = terminal("run", "job", "train.py")
    child.expect("5/10")
    child.sendintr()
    child.expect("go on")
    plane.set(f"{JOBS}/train-1", running_job | {"state": "CANCELLED", "exitCode": 143, "signal": 15})
    plane.held.set()
    interrupt(child)
    child.expect("Job train-1 was cancelled")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert cancelled(plane)


def test_delete_asks_first_and_names_the_job_that_it_would_end(plane, terminal):
    plane.add_node("demo")
    plane.add_job("train-1", slice="demo", state="RUNNING", exitCode=None)
    child = terminal("delete", "slice", "demo")
    child.expect_exact("Delete slice demo (v3-8) and all that is in its HBM? Job train-1 is running on it and will be")
    child.sendline("n")
    child.expect(pexpect.EOF)
    assert "DELETE" not in {request[0] for request in plane.requests}


def test_ctrl_c_elsewhere_is_one_line_and_130(plane, terminal):
    plane.add_node("demo")
    plane.set(JOBS, {"jobs": []})
    child = terminal("delete", "slice", "demo")
    child.expect_exact("[y/N]")
    interrupt(child)
    child.expect("tpuctl: interrupted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert "Traceback" not in ANSI.sub("", child.before)
