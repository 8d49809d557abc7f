"""The way to the control plane for commands that change something."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuctl.client import Client


def connect() -> Client:
    """A client of this home's control plane, which is started first, with a word on it, if need be."""
    from tpuctl import client
    from tpuctl.cli import settings
    from tpuctl.cli.steps import step

    settings.check()
    if client.running() is None:
        with step("Starting the control plane", "Started the control plane"):
            return client.connect()
    return client.connect()
