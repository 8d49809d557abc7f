"""How do cores talk to the script that launched them? Values sent to its callbacks, and what those answer.

Only the cores that are really there take part: the one that the program places a callback on, or else every one that
is in the branch or loop.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backend.errors import InvalidArgument, Unimplemented
from backend.tensorcore.lowering import Array, Environment, Host, Kernel, Site, Step


def build_send(site: Site) -> Step:
    """``send``: operand 0 goes to the host; the last operand and the result are tokens."""
    value, *rest = site.instruction.operands
    if len(rest) != 1:
        raise Unimplemented(f"a send of {len(rest)} values at once is not supported ({site.instruction.source})")
    channel: int = site.attributes["channel"]
    stacked, token = not site.uniform(0), site.instruction.results[0]

    def step(env: Environment) -> None:
        host = _host(site)
        source = env[value]
        for core in _present(site):
            host.send(channel, core, source[core] if stacked else source)
        env[token].fill(0)

    return step


def build_recv(site: Site) -> Step:
    """``recv``: result 0 comes from the host; cores that take no part get zeros."""
    value, *rest = site.instruction.results
    if len(rest) != 1:
        raise Unimplemented(f"a recv of {len(rest)} values at once is not supported ({site.instruction.source})")
    channel: int = site.attributes["channel"]
    stacked, token = not site.computation.uniform[value], rest[0]

    def step(env: Environment) -> None:
        host, target = _host(site), env[value]
        present = _present(site)
        if len(present) < site.num_cores:
            target.fill(0)
        host.receive(channel, [(core, _part(target, core) if stacked else target) for core in present])
        env[token].fill(0)

    return step


def _part(target: Array, core: int) -> Array:
    """One core's part as a view, also of a scalar."""
    return target[core : core + 1].reshape(target.shape[1:])


def _present(site: Site) -> Sequence[int]:
    """The cores that take part in this run of the instruction."""
    active, placed = site.context.active, site.attributes["core"]
    if site.num_cores == 1:
        return (0,)
    if placed is not None:
        return (placed,) if active is None or active[placed] else ()
    return range(site.num_cores) if active is None else [int(core) for core in np.flatnonzero(active)]


def _host(site: Site) -> Host:
    if site.context.host is None:
        raise InvalidArgument(f"the launch brings no callbacks for this program ({site.instruction.source})")
    return site.context.host


KERNELS = {"send": Kernel(build_send), "recv": Kernel(build_recv)}
