"""How a training script tells its job what it has reached: one JSON line a call, read by `tpuctl status` and `run job`.

    from tpuctl import metrics
    metrics.log(epoch=1, epochs=10, step=20, steps=58, loss=0.31, accuracy=0.91)

``epoch``, ``epochs``, ``step`` and ``steps`` (of this epoch) place the line and draw the progress bars; any other name
is a metric. Outside a job ``log`` does nothing, so a script may call it anywhere.
"""

from __future__ import annotations

import json
import math
import os
import time
from typing import SupportsFloat

METRICS_FILE = "TPUCTL_METRICS_FILE"
SLICE, JOB = "TPUCTL_SLICE", "TPUCTL_JOB"
LOCAL = "unix://"
POSITION = ("epoch", "epochs", "step", "steps")


def log(**scalars: SupportsFloat) -> None:
    """Append one line of scalars (numbers, or 0-d NumPy and JAX arrays) to the job's metrics.

    Raises TypeError for a value that is not a number, ValueError for an array of more than one element.
    """
    path = os.environ.get(METRICS_FILE)
    if path is None:
        return
    row = {"time": time.time(), **{name: _plain(value) for name, value in scalars.items()}}
    line = json.dumps(row, allow_nan=False) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def device_seconds() -> float | None:
    """Simulated device time that the job's programs have taken so far; None outside a slice.

    Programs that are still under way do not count: wait for their results first. Raises backend.errors.Unavailable if
    the slice has gone.
    """
    address = os.environ.get(SLICE, "")
    if not address.startswith(LOCAL):
        return None
    from backend.link.client import status

    session = status(os.path.dirname(address.removeprefix(LOCAL)))["sessions"].get(os.environ.get(JOB, ""))
    return 0.0 if session is None else float(session["deviceSeconds"])


def _plain(value: SupportsFloat) -> int | float | str:
    """The value as JSON writes it; what JSON has no number for is spelled as protobuf's JSON does."""
    if isinstance(value, int):
        return int(value)
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number
