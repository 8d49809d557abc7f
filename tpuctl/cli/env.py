"""tpuctl env and tpuctl gcloud: Cloud TPU's clients, set to call this control plane."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Annotated

import typer

from tpuctl.cli.problems import Problem
from tpuctl.cli.shells import ShellOption, current_shell, export, to_use
from tpuctl.client.environment import ClientKind

Client = Annotated[ClientKind, typer.Option("--client", help="For which client.")]
UseProxy = Annotated[
    bool,
    typer.Option("--proxy", help="By a local proxy for https://*.googleapis.com: for clients with fixed addresses."),
]
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""All that follows is gcloud's own, --help too."""
AROUND = "they call Google's own addresses unless they are told others in the program; --proxy brings those here, too"


def env(client: Client = ClientKind.GCLOUD, proxy: UseProxy = False, shell: ShellOption = None) -> None:
    """Print what to export so that a client of Cloud TPU calls this control plane: eval "$(tpuctl env)"."""
    from tpuctl.cli import terminal

    found = variables(client, proxy)
    syntax = shell or current_shell()
    for variable, value in found.items():
        print(export(variable, value, syntax))
    port = _ssh_port() if client is ClientKind.GCLOUD else 22
    if port != 22:
        terminal.say(f"TPU VMs listen on port {port}: give gcloud's ssh --ssh-flag='-p {port}', and its scp")
        terminal.say(f"  --scp-flag='-P {port}'; tpuctl gcloud does so by itself")
    if client in (ClientKind.PYTHON, ClientKind.SKYPILOT) and not proxy:
        terminal.say(f"For clients written in Python: {AROUND}")
    if sys.stdout.isatty():
        words = [f" --client {client}" if client is not ClientKind.GCLOUD else "", " --proxy" if proxy else ""]
        print(f"# To use it: {to_use('tpuctl env' + ''.join(words), syntax)}")


def gcloud(context: typer.Context) -> None:
    """Run the installed gcloud on this control plane: tpuctl gcloud compute tpus tpu-vm list."""
    program = shutil.which("gcloud")
    if program is None:
        raise Problem("gcloud is not installed", "see https://cloud.google.com/sdk/docs/install")
    found = variables(ClientKind.GCLOUD, proxy=False)
    sys.stdout.flush()
    arguments = with_ssh_port(context.args, _ssh_port())
    os.execve(program, [program, *arguments], os.environ | found)  # noqa: S606


def with_ssh_port(arguments: list[str], port: int) -> list[str]:
    """gcloud's arguments, with the port that TPU VMs listen on where it is not SSH's own."""
    if port == 22 or "tpus" not in arguments:
        return arguments
    if "ssh" in arguments:
        return [*arguments, f"--ssh-flag=-p {port}"]
    return [*arguments, f"--scp-flag=-P {port}"] if "scp" in arguments else arguments


def _ssh_port() -> int:
    from tpuctl.control.vms import ssh_port

    return ssh_port()


def variables(client: ClientKind, proxy: bool) -> dict[str, str]:
    """What the client needs in its environment; starts the control plane if need be. Raises ApiError, OSError."""
    from pathlib import Path

    from tpuctl.api.home import Home
    from tpuctl.cli.plane import connect
    from tpuctl.client.credentials import credentials_file, token_file
    from tpuctl.client.environment import Place, Proxy, environment

    home = Home.find()
    with connect() as plane:
        url, certificate = plane.url, plane.certificate
        started = plane.start_proxy() if proxy else None
        by = Proxy(started["url"], Path(started["certificate"])) if started else None
        project, zone = plane.project, plane.zone
    place = Place(url.rstrip("/"), project, zone, token_file(home), credentials_file(home), certificate, by)
    return environment(client, place)
