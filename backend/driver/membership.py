"""Which process of its job is this one? TPUCTL_PROCESS=I/P says it, or else JAX's own distributed setup."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from backend.errors import InvalidArgument

_FORM = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True)
class Membership:
    """Process number ``process`` of ``processes``, and how patient it is with the others."""

    process: int = 0
    processes: int = 1
    notice_seconds: float = 10.0
    timeout_seconds: float = 120.0


def membership(node: int = 0, nodes: int = 1, environment: Mapping[str, str] = os.environ) -> Membership:
    """What the environment says; ``node`` of ``nodes`` if it says nothing. Raises InvalidArgument."""
    text = environment.get("TPUCTL_PROCESS", "").strip() or f"{node}/{nodes}"
    found = _FORM.fullmatch(text)
    if found is None or int(found[1]) >= int(found[2]):
        raise InvalidArgument(
            f"TPUCTL_PROCESS={text} is no process of a job; it reads I/P, process I of P, with I from 0 to P - 1"
        )
    return Membership(
        int(found[1]),
        int(found[2]),
        _seconds(environment, "TPUCTL_LAUNCH_NOTICE", Membership.notice_seconds),
        _seconds(environment, "TPUCTL_LAUNCH_TIMEOUT", Membership.timeout_seconds),
    )


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "").strip()
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise InvalidArgument(f"{name}={text} is no time; it reads a number of seconds, above 0")
    return seconds
