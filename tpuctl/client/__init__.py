"""The client of the control plane: `connect()` finds or starts it, `Client` calls it."""

from tpuctl.client.client import Client
from tpuctl.client.lifecycle import connect, running, start, stop

__all__ = ["Client", "connect", "running", "start", "stop"]
