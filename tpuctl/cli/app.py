"""The command tree: which verbs there are."""

from __future__ import annotations

from typing import Annotated

import typer

from tpuctl.cli import (
    attach,
    auth,
    budget,
    cancel,
    create,
    delete,
    describe,
    down,
    env,
    fault,
    logs,
    queued,
    quota,
    reservations,
    run,
    schedules,
    serve,
    simulate,
    ssh,
    status,
    up,
    usage,
    version,
    zsh_first_tab,
)
from tpuctl.cli import list as list_verb

EPILOG = """Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 not allowed, 5 quota or capacity;
a job's own exit status passes through."""

app = typer.Typer(
    name="tpuctl",
    help="A Cloud TPU on your own machine: slices of emulated chips that run real JAX programs.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: importing the rich one takes longer than all else
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Version = Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)]


@app.callback(invoke_without_command=True)
def root(context: typer.Context, show_version: Version = False) -> None:
    if show_version:
        version.print_version()
        raise typer.Exit


for verb in (run, create, delete, list_verb, describe, simulate, cancel, fault, quota, budget, auth):
    app.add_typer(verb.app, name=verb.__name__.rpartition(".")[2])
for verb, does in ((create, queued.create), (delete, queued.delete), (describe, queued.describe)):
    verb.app.command("queued-resource")(does)
list_verb.app.command("queued-resources")(queued.listing)
create.app.command("reservation")(reservations.create)
delete.app.command("reservation")(reservations.delete)
list_verb.app.command("reservations")(reservations.listing)
list_verb.app.command("prices")(usage.prices)
app.command("usage")(usage.usage)
list_verb.app.command("schedules")(schedules.listing)
delete.app.command("schedule")(schedules.delete)
for command in (status.status, logs.logs, attach.attach, up.up, down.down, serve.serve, env.env, version.version):
    app.command()(command)

app.command("ssh")(ssh.ssh)
app.command("cp")(ssh.copy)
app.command(context_settings=env.PASSED_ON, add_help_option=False)(env.gcloud)

zsh_first_tab.add()
