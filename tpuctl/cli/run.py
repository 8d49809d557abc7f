"""tpuctl run: a job, on a slice of its own or on one that is there."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tpuctl.cli import complete, exit_codes, run_options, zones
from tpuctl.cli.job_words import AFTER_DASHES, RunJob
from tpuctl.cli.options import Output, Slices, Wait, valid_job, valid_slice
from tpuctl.cli.output import Format
from tpuctl.zoo.catalogue import MODELS

if TYPE_CHECKING:
    from backend.hardware import AcceleratorType
    from tpuctl.api.jobs import Job
    from tpuctl.client import Client

SUFFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
SUFFIX_LETTERS = 5

app = typer.Typer(help="Run a training job.", no_args_is_help=True)

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL | FILE.py | -- COMMAND ...",
        help=f"A reference model ({', '.join(MODELS)}), a Python file or a command, with its own arguments.",
        autocompletion=complete.models,
    ),
]
Slice = Annotated[
    str | None,
    typer.Option(
        "--slice", metavar="NAME", help="Run on this slice.", autocompletion=complete.slices, callback=valid_slice
    ),
]
Type = Annotated[
    str | None,
    typer.Option("--type", "-t", metavar="TYPE", help="Make a slice of this type.", autocompletion=complete.types),
]
Generation = Annotated[
    str | None,
    typer.Option(
        "--generation",
        "-g",
        metavar="GENERATION",
        help="Make a slice of this generation, with --topology.",
        autocompletion=complete.generations,
    ),
]
Topology = Annotated[
    str | None, typer.Option("--topology", metavar="AxBxC", help="Its chips along each axis, such as 4x4x8.")
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of the job, and of the slice it makes.", callback=valid_job),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        metavar="N",
        min=1,
        help="Share the hosts among N processes; by default one a host up to 8 hosts, else one that drives all.",
    ),
]
Worker = Annotated[str | None, typer.Option("--worker", metavar="N|all", help="Run the command on these workers only.")]
Scale = Annotated[
    str | None,
    typer.Option("--scale", metavar="TYPE,TYPE,...", help="Run the same job on each of these types and compare."),
]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the slice that was made for the job.")]


@app.command("job", cls=RunJob, context_settings={"ignore_unknown_options": True})
def run_job(
    context: typer.Context,
    words: Words,
    slice: Slice = None,
    type: Type = None,
    generation: Generation = None,
    topology: Topology = None,
    slices: Slices = 1,
    processes: Processes = None,
    worker: Worker = None,
    scale: Scale = None,
    name: Name = None,
    keep: Keep = False,
    zone: run_options.Zones = None,
    spot: run_options.Spot = False,
    queue: run_options.Queue = True,
    priority: run_options.Priority = 0,
    restart: run_options.Restart = None,
    max_restarts: run_options.MaxRestarts = None,
    checkpoint_dir: run_options.CheckpointDir = None,
    timeout: run_options.Timeout = None,
    after: run_options.After = None,
    array: run_options.Array = None,
    every: run_options.Every = None,
    wait: Wait = True,
    output: Output = Format.TABLE,
) -> None:
    """Run a reference model, a Python file or a command on a slice, and exit as it does.

    Without --slice, a slice is made for the job and deleted after it; while there is no room, the job waits. What
    follows a file or -- COMMAND goes to the job: put tpuctl's own options before it. A model's options may stand
    anywhere.
    """
    from tpuctl.cli.create import spec_of
    from tpuctl.cli.launch import launch
    from tpuctl.cli.plane import connect
    from tpuctl.cli.problems import Problem
    from tpuctl.cli.worker_output import chosen

    shaped = any(option is not None for option in (type, generation, topology))
    zone_given, more_zones = (zone[0], zone[1:]) if zone else (None, [])
    if slice is not None and (shaped or keep or slices > 1 or spot or more_zones):
        what = "--type, --generation, --topology, --slices, --spot, --keep and more zones are for one made for the job"
        raise Problem(f"--slice names a slice that is there; {what}", "", exit_codes.USAGE)
    if scale is not None and (slice or shaped or slices > 1 or processes or worker or keep or array or every):
        what = "it runs on the slices it makes, each driven by one process"
        raise Problem(f"--scale goes with no other of tpuctl's options but --name and --zone: {what}", "", 2)
    workers = chosen(worker)
    found = launch(words, after_dashes=context.meta[AFTER_DASHES])
    from tpuctl.api.jobs import JobRequest, RestartPolicy
    from tpuctl.api.nodes import Node

    if scale is not None:
        from tpuctl.cli.scale import kinds, with_measured

        wanted = kinds(scale)
        found = with_measured(found, MODELS[words[0]].measured) if words[0] in MODELS else found
    numbers = None if array is None else run_options.indices(array)
    kind = None if slice or scale else _kind(found.accelerator_type, type, generation, topology)
    spec = Node() if kind is None else spec_of(kind)
    request = JobRequest(
        name=name or (found.stem if scale is not None or every is not None else f"{found.stem}-{_suffix()}"),
        zone=zones.of_kind(kind, zone_given) if kind else zones.of_slice(slice, zone_given) if slice else zone_given,
        zones=more_zones,
        spot=spot,
        queue=queue and scale is None,
        priority=priority,
        restart=RestartPolicy(restart or "never"),
        max_restarts=max_restarts,
        checkpoint_dir=None if checkpoint_dir is None else str(Path.cwd() / checkpoint_dir.expanduser()),
        timeout=run_options.seconds(timeout),
        after=after or [],
        slice=slice,
        accelerator_type=spec.accelerator_type,
        accelerator_config=spec.accelerator_config,
        num_slices=slices,
        keep_slice=keep,
        processes=processes,
        workers=workers,
        command=found.command,
        working_directory=str(Path.cwd()),
        environment=_environment(),
    )
    with connect() as client:
        if scale is not None:
            from tpuctl.cli.scale import run_on_each

            raise typer.Exit(run_on_each(client, request, wanted, output))
        if every is not None:
            from tpuctl.cli import schedules

            schedules.create(client, every, request, numbers, output)
            return
        if numbers is not None:
            from tpuctl.cli.arrays import run_array

            raise typer.Exit(run_array(client, client.create_jobs(request, numbers), wait=wait, output=output))
        job = client.create_job(request)
        _say_who_drives(job)
        if wait:
            raise typer.Exit(_follow(client, job, output))
        _detached(job, output)


def _kind(default: str, type: str | None, generation: str | None, topology: str | None) -> AcceleratorType:
    """The slice to make; what is not said is as in ``default``, a type. Raises Problem."""
    from backend.hardware import accelerator_type
    from tpuctl.cli.create import chosen

    if type is None and topology is not None:
        generation = generation or accelerator_type(default).generation.name
    return chosen(type or (None if generation else default), generation, topology)


def _follow(client: Client, job: Job, output: Format) -> int:
    from tpuctl.cli.follow import Detached, follow
    from tpuctl.cli.job_report import final_object, report

    try:
        job, rows, interrupted = follow(client, job, script_output=sys.stderr if output.is_data else sys.stdout)
    except Detached:
        _detached(job, Format.TABLE)
        return exit_codes.DONE
    report(job, rows)
    if output.is_data:
        from tpuctl.cli.output import show_data

        show_data(final_object(job), output)
    return exit_codes.INTERRUPTED if interrupted and job.state == "CANCELLED" else exit_code(job)


def _say_who_drives(job: Job) -> None:
    """One line on how many processes share the hosts, where there are several."""
    from tpuctl.cli import terminal

    if job.hosts > 1:
        terminal.say(who_drives(job))


def who_drives(job: Job) -> str:
    each = job.hosts // job.processes
    if job.processes == 1:
        return f"{job.hosts} hosts, driven by one process (--processes N shares them among N)"
    share = "one a host" if each == 1 else f"{each} hosts each"
    running = len(job.workers)
    some = "" if running == job.processes else f"; the command runs on {running} of them"
    return f"{job.hosts} hosts, {job.processes} processes: {share} (--processes 1: one drives all){some}"


def exit_code(job: Job) -> int:
    """The job's own exit status; for one that never started, that of its error."""
    if job.exit_code is not None:
        return job.exit_code
    return exit_codes.of_rpc_code(job.error.code) if job.error else exit_codes.FAILED


def _detached(job: Job, output: Format) -> None:
    from tpuctl.cli import terminal
    from tpuctl.cli.output import show_data

    if job.waits_for:
        terminal.say(f"Job {job.name} waits: {job.waits_for}")
    terminal.say(f"Job {job.name} goes on by itself. Come back: tpuctl logs {job.name} -f")
    if output.is_data:
        show_data(job.to_json(), output)


def _environment() -> dict[str, str]:
    """The user's whole environment, and the width of the terminal for what the job draws."""
    environment = dict(os.environ)
    if sys.stdout.isatty():
        environment.setdefault("COLUMNS", str(os.get_terminal_size(sys.stdout.fileno()).columns))
    return environment


def _suffix() -> str:
    return "".join(
        random.choice(SUFFIX_ALPHABET)  # noqa: S311 - a name, not a secret
        for _ in range(SUFFIX_LETTERS)
    )
