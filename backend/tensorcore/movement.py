"""How is data rearranged? Views wherever memory order allows, copies where not."""

from __future__ import annotations

from typing import Any

import numpy as np

from backend.tensorcore.lowering import Array, Environment, Kernel, Site, Step, View


def _core_first(site: Site, dims: list[int]) -> list[int]:
    """Dimensions of an operand, shifted past its core axis, which stays first."""
    shift = int(not site.uniform(0))
    return [*range(shift), *(d + shift for d in dims)]


def _operand_lead(site: Site) -> int:
    return int(not site.uniform(0))


def _copy_of(view: View, site: Site) -> Step:
    source, target = site.instruction.operands[0], site.instruction.results[0]
    return lambda env: np.copyto(env[target], view(env[source]))


# ---- reshape


def _reshape_view(site: Site) -> View | None:
    shape = site.result_shape()
    try:
        np.reshape(site.operand(0), shape, copy=False)
    except ValueError:
        return None
    return lambda array: array.reshape(shape)


def _reshape(site: Site) -> Step:
    source, target = site.instruction.operands[0], site.instruction.results[0]
    source_shape = site.operand(0).shape
    return lambda env: np.copyto(env[target].reshape(source_shape), env[source])


# ---- transpose, broadcast, slice, reverse: always views


def _transpose(site: Site) -> View:
    order = _core_first(site, site.attributes["permutation"])
    return lambda array: array.transpose(order)


def _broadcast(site: Site) -> View:
    shape = site.result_shape()
    dimensions: list[int] = site.attributes["dimensions"]
    lead = _operand_lead(site)
    order = [*range(lead), *(lead + position for position in np.argsort(dimensions).tolist())]
    kept = {d + lead for d in dimensions}
    index = tuple(slice(None) if axis < lead or axis in kept else np.newaxis for axis in range(len(shape)))
    return lambda array: np.broadcast_to(array.transpose(order)[index], shape)


def _slice(site: Site) -> View:
    a = site.attributes
    cut = (
        *(slice(None) for _ in range(_operand_lead(site))),
        *(slice(*bounds) for bounds in zip(a["starts"], a["limits"], a["strides"], strict=True)),
    )
    return lambda array: array[cut]


def _reverse(site: Site) -> View:
    lead = _operand_lead(site)
    flipped = {d + lead for d in site.attributes["dimensions"]}
    cut = tuple(slice(None, None, -1) if d in flipped else slice(None) for d in range(site.operand(0).ndim))
    return lambda array: array[cut]


def _always_view(make: Any) -> Kernel:
    def build(site: Site) -> Step:
        return _copy_of(make(site), site)

    return Kernel(build, view=make)


# ---- bit casts


def _bitcast(site: Site) -> Step:
    source, target = site.instruction.operands[0], site.instruction.results[0]
    widths = [_bits(kind.dtype) for kind in (site.operand_type(0), site.result_type())]
    dtype, shape = site.result_type().dtype, site.result_shape()
    if min(widths) < 8:
        return lambda env: np.copyto(env[target], _regrouped(env[source], widths, dtype).reshape(shape))
    return lambda env: np.copyto(env[target], np.ascontiguousarray(env[source]).reshape(-1).view(dtype).reshape(shape))


def _bits(dtype: np.dtype[Any]) -> int:
    """Bits of an element; numpy keeps elements narrower than a byte in one each."""
    narrow = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
    return narrow.get(dtype.name, 8 * dtype.itemsize)


def _regrouped(array: Array, widths: list[int], dtype: np.dtype[Any]) -> Array:
    """The bits of all elements, lowest first, as elements of another width; flat."""
    before, after = widths
    stored = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    bits = np.unpackbits(stored, axis=1, bitorder="little")[:, :before].reshape(-1, after)
    whole = np.packbits(bits, axis=1, bitorder="little")
    if after >= 8:
        return whole.reshape(-1).view(dtype)
    if dtype.name.startswith("int"):  # the sign goes up to the byte's top
        return ((whole << (8 - after)).view(np.int8) >> (8 - after)).reshape(-1).astype(dtype)
    return whole.reshape(-1).view(dtype)


# ---- concatenate, pad, iota, core numbers


def _concatenate(site: Site) -> Step:
    axis = site.attributes["dimension"] + site.lead
    readers = [site.reader(i) for i in range(len(site.instruction.operands))]
    target = site.instruction.results[0]
    cuts = []
    low = 0
    for position in range(len(readers)):
        size = site.operand_type(position).shape[site.attributes["dimension"]]
        cuts.append((*([slice(None)] * axis), slice(low, low + size)))
        low += size

    def step(env: Environment) -> None:
        out = env[target]
        for read, cut in zip(readers, cuts, strict=True):
            out[cut] = read(env)

    return step


def _pad(site: Site) -> Step:
    a = site.attributes
    read, value = site.reader(0), site.reader(1)
    target, lead = site.instruction.results[0], site.lead
    inside: list[slice] = [slice(None)] * lead
    taken: list[slice] = [slice(None)] * lead
    sizes = zip(site.operand_type(0).shape, site.result_type().shape, a["low"], a["interior"], strict=True)
    for size, out_size, low, interior in sizes:
        step_size = interior + 1
        first = -(low // step_size) if low < 0 else 0  # elements that fall off the low end
        start = low + first * step_size
        count = max(0, min(size - first, -(-(out_size - start) // step_size)))
        taken.append(slice(first, first + count))
        inside.append(slice(start, start + (count - 1) * step_size + 1 if count else start, step_size))
    expand = (slice(None),) * lead + (np.newaxis,) * len(site.result_type().shape)

    def step(env: Environment) -> None:
        out = env[target]
        np.copyto(out, value(env)[expand] if lead else value(env))
        out[tuple(inside)] = read(env)[tuple(taken)]

    return step


def _iota(site: Site) -> Step:
    dimension, target = site.attributes["dimension"], site.instruction.results[0]
    kind = site.result_type()
    numbers = np.arange(kind.shape[dimension]).astype(kind.dtype)
    column = numbers.reshape([-1 if d == dimension else 1 for d in range(len(kind.shape))])
    return lambda env: np.copyto(env[target], column)


def _partition_id(site: Site) -> Step:
    target, count = site.instruction.results[0], site.num_cores
    if site.lead:
        return lambda env: np.copyto(env[target], np.arange(count, dtype=env[target].dtype))
    return lambda env: env[target].fill(0)


def _zero(site: Site) -> Step:
    """replica_id: there is one replica; tokens carry no data; what a new buffer holds is not specified."""
    target = site.instruction.results[0]
    return lambda env: env[target].fill(0)


KERNELS = {
    "reshape": Kernel(_reshape, view=_reshape_view),
    "transpose": _always_view(_transpose),
    "broadcast_in_dim": _always_view(_broadcast),
    "slice": _always_view(_slice),
    "reverse": _always_view(_reverse),
    "bitcast_convert": Kernel(_bitcast),
    "concatenate": Kernel(_concatenate),
    "pad": Kernel(_pad),
    "iota": Kernel(_iota),
    "partition_id": Kernel(_partition_id),
    "replica_id": Kernel(_zero),
    "create_token": Kernel(_zero),
    "after_all": Kernel(_zero),
    "allocate_buffer": Kernel(_zero),
}
