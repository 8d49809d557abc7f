"""What goes into a program and comes out of it: arrays of all cores together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class Value:
    """One array of a program for all its cores.

    ``uniform``: every core has the same, ``array`` has the shape of one core's part. Else ``array`` has a leading
    core axis. C-contiguous.
    """

    array: Array
    uniform: bool


@dataclass(slots=True)
class Launch:
    """What a run made: results in the program's order, and the simulated seconds that one core took."""

    results: list[Value]
    device_seconds: float
    mxu_seconds: float
