"""tpuctl down: end the control plane."""

from __future__ import annotations


def down() -> None:
    """Stop the control plane. Slices and jobs live on and are found again by the next one."""
    from tpuctl import client
    from tpuctl.cli import terminal
    from tpuctl.cli.steps import step

    if client.running() is None:
        terminal.say("No control plane is running")
        return
    with step("Stopping the control plane", "Stopped the control plane"):
        client.stop()
