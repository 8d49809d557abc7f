"""How do the processes of a training on several hosts share its work?"""

from __future__ import annotations

import os
from collections.abc import Sequence

import jax

SHOWN_DEVICES = 8


def join() -> None:
    """Meet the other processes, if the job has several. Called before anything of JAX is used."""
    hostnames = os.environ.get("TPU_WORKER_HOSTNAMES", "").split(",")
    if len(hostnames) * int(os.environ.get("MEGASCALE_NUM_SLICES") or 1) > 1:
        jax.distributed.initialize()


def share(count: int) -> slice:
    """This process's part of ``count`` things, which are shared equally and in order."""
    each = count // jax.process_count()
    return slice(jax.process_index() * each, (jax.process_index() + 1) * each)


def some(devices: Sequence[jax.Device]) -> list[str]:
    """The devices; of many only the first and the last."""
    if len(devices) <= SHOWN_DEVICES:
        return [repr(device) for device in devices]
    rest = len(devices) - SHOWN_DEVICES
    return [*map(repr, devices[: SHOWN_DEVICES - 1]), f"... {rest} more", repr(devices[-1])]


def say_nothing(_: str) -> None:
    """What processes but the first print."""
