"""Is this host data on the slice already? JAX sends a replicated array to its devices one by one, in one call.

No code of the script runs within that call, so the data does not change: what is the same array for another device is
a copy of what came first.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
from jaxlib import xla_client


class _Call(threading.local):
    """The call of JAX's that this thread is in: what each device gets, and the buffers that were sent so far."""

    data: dict[int, Hashable] | None = None
    sent: dict[Hashable, int] | None = None


_call = _Call()


def follow_replicas() -> None:
    """Know from now on when JAX sends an array to several devices. Without that, each is sent its own copy."""
    original = getattr(xla_client, "batched_device_put", None)
    if original is None:
        return

    def batched_device_put(aval: Any, sharding: Any, arrays: Any, devices: Any, *rest: Any, **options: Any) -> Any:
        if len(devices) == 1:
            return original(aval, sharding, arrays, devices, *rest, **options)
        _call.data, _call.sent = _data_of(arrays, devices), {}
        try:
            return original(aval, sharding, arrays, devices, *rest, **options)
        finally:
            _call.data = _call.sent = None

    xla_client.batched_device_put = batched_device_put


def sent_before(device: int, buffer: int) -> int | None:
    """The buffer to which the device's data was sent within this call; if there is none, ``buffer`` is the first."""
    if _call.data is None or _call.sent is None or device not in _call.data:
        return None
    first = _call.sent.setdefault(_call.data[device], buffer)
    return None if first == buffer else first


def _data_of(arrays: Iterable[Any], devices: Iterable[Any]) -> dict[int, Hashable]:
    """For each device what says which data it gets. The arrays live as long as the call."""
    return {device.id: _which(array) for device, array in zip(devices, arrays, strict=True)}


def _which(array: Any) -> Hashable:
    if not isinstance(array, np.ndarray):
        return id(array)
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
