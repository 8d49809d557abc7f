"""tpuctl up: the control plane, in the background."""

from __future__ import annotations


def up() -> None:
    """Start the control plane in the background. Commands that need it do so by themselves."""
    from tpuctl import client
    from tpuctl.cli import terminal
    from tpuctl.cli.steps import step

    server = client.running()
    if server is None:
        with step("Starting the control plane", "Started the control plane"):
            server = client.start()
    terminal.say(f"Control plane at {server.url} (pid {server.pid})")
