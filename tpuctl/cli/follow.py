"""Follow a job to its end: its output as it is, and below it, in a terminal, its progress."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, TextIO

from tpuctl.api.errors import FailedPrecondition, Unavailable
from tpuctl.cli import terminal, training
from tpuctl.cli.job_progress import JobProgress
from tpuctl.cli.plane import connect
from tpuctl.cli.worker_output import WorkerOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.api.jobs import Job, JobEvent
    from tpuctl.client import Client


class Detached(Exception):
    """The user has left the job to itself."""


class Followed(NamedTuple):
    """A job as it ended, the rows of metrics it logged, and whether Ctrl-C has asked for its end."""

    job: Job
    rows: list[Mapping[str, float]]
    interrupted: bool


def follow(client: Client, job: Job, script_output: TextIO) -> Followed:
    """Show ``job`` until it has ended.

    Ctrl-C asks whether to detach (raises Detached), to cancel, or to go on; a second one cancels. A control plane that
    goes away is started again, and the watch taken up where it was; raises ApiError if that does not help.
    """
    follower = _Follower(job, script_output)
    interrupted = False
    with ExitStack() as clients:
        while True:
            try:
                job = _watch(client, job.name, follower)
                if job.state.ended:
                    follower.output.finish()
                    return Followed(job, follower.progress.rows, interrupted)
            except KeyboardInterrupt:
                interrupted = _cancelled(client, job.name) or interrupted
                continue
            terminal.say("The control plane has gone; the job goes on. Looking for it again")
            client = clients.enter_context(connect())


def _watch(client: Client, name: str, follower: _Follower) -> Job:
    """Show what happens until the stream ends or breaks off; return the job as it was seen last."""
    with follower.progress:
        try:
            for event in client.watch_job(name, list(follower.offsets.values()), follower.attempt):
                follower.see(event)
            follower.job = client.get_job(name)
        except Unavailable:
            if follower.job is None:
                raise
    return follower.job


class _Follower:
    """Where a watch has got to, so that it can be taken up again."""

    def __init__(self, job: Job, script_output: TextIO) -> None:
        self.output = WorkerOutput(len(job.workers) > 1, stdout=script_output)
        self.progress = JobProgress()
        self.attempt = 1
        self.told = 0
        self.offsets = dict.fromkeys([worker.index for worker in job.workers] or [0], 0)
        self.job: Job | None = None

    def see(self, event: JobEvent) -> None:
        match event.type:
            case "log":
                self._go_on_with(event.attempt)
                self.offsets[event.worker] = event.offset
                text = self.output.take(event)
                if text:
                    with self.progress.paused(text):
                        self.output.put(event.stream, text)
            case "metrics":
                self._go_on_with(event.attempt)
                self.progress.metrics(event.values)
            case "progress":
                self.progress.doing(event.message)
            case "job":
                self.job = event.job
                self._tell_of_attempts(event.job)
                self.progress.job(event.job)

    def _tell_of_attempts(self, job: Job) -> None:
        """One line for each that has ended and is followed by another."""
        for one in job.attempts[self.told :]:
            if one.number < job.attempt:
                with self.progress.paused("\n"):
                    place = str(training.position(one.metrics))
                    at = f" at {place}" if place else ""
                    terminal.say(f"! Attempt {one.number} ended{at}: {one.ended}. Attempt {one.number + 1} follows")
        self.told = len(job.attempts)

    def _go_on_with(self, attempt: int) -> None:
        """What comes is of that attempt: its output begins anew, and its metrics go on from where it resumed."""
        if attempt == self.attempt:
            return
        self.attempt = attempt
        self.offsets = dict.fromkeys(self.offsets, 0)
        self.progress.attempt(attempt)


def _cancelled(client: Client, name: str) -> bool:
    """Ask what Ctrl-C means, and whether it was to cancel; without a terminal to ask at, it was."""
    if terminal.is_interactive():
        terminal.say("")
        try:
            answer = _choice(f"Job {name}: [d]etach, [c]ancel, or Enter to go on? ")
        except (KeyboardInterrupt, EOFError):
            answer = "c"
        if answer.startswith("d"):
            raise Detached
        if not answer.startswith("c"):
            return False
    terminal.say(f"\nCancelling job {name}")
    try:
        client.cancel_job(name)
    except FailedPrecondition:
        return False  # it has ended meanwhile
    return True


def _choice(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower()
