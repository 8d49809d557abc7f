"""Which operations are taken, and how are their attributes read? Into plain data, at compile time.

``_READERS`` names each operation that the compiler takes, with the function that reads its attributes; an operation
without a row is refused with its name and the line it came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from backend.compiler.operations import ELEMENTWISE
from backend.compiler.program import TensorType
from backend.errors import InvalidArgument, Unimplemented

Attributes = dict[str, Any]
Reader = Callable[[ir.Operation], Attributes]

_DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "i2": ml_dtypes.int2,
    "ui2": ml_dtypes.uint2,
    "i4": ml_dtypes.int4,
    "ui4": ml_dtypes.uint4,
    "bf16": ml_dtypes.bfloat16,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}


def tensor_type(kind: ir.Type) -> TensorType:
    """Shape and dtype of a ranked tensor type. Raises Unimplemented for element types that have no array form."""
    if str(kind) in {"!stablehlo.token", "!mhlo.token"}:
        return TensorType((0,), np.dtype(np.bool_))
    ranked = ir.RankedTensorType(kind)
    name = str(ranked.element_type)
    if name not in _DTYPES:
        raise Unimplemented(f"element type {name} is not supported")
    return TensorType(tuple(ranked.shape), np.dtype(_DTYPES[name]))


def element_types(kind: ir.Type) -> list[ir.Type]:
    """The types in a tuple type; any other type alone."""
    if not isinstance(kind, ir.TupleType):
        return [kind]
    return [kind.get_type(index) for index in range(kind.num_types)]


def element_index(operation: ir.Operation) -> int:
    """Which element of its tuple a ``get_tuple_element`` takes."""
    return _int(operation, "index")


def is_identity(operation: ir.Operation) -> bool:
    """Whether an operation's results, if it has any, are its operands: barriers, spent sharding annotations."""
    name = _own_name(operation)
    return name in _IDENTITIES or (name == "custom_call" and _target(operation) in _IDENTITY_CALLS)


def name_of(operation: ir.Operation) -> str:
    """The operation's name as instructions use it: without dialect, custom calls by what they stand for."""
    name = _plain_name(operation)
    return _RENAMED.get(name, name)


def reader_of(operation: ir.Operation, source: str) -> Reader:
    """The function that reads an operation's attributes. Raises Unimplemented for one that isn't taken."""
    reader = _nothing if is_identity(operation) else _READERS.get(_plain_name(operation))
    if reader is None:
        if operation.name in _INSTEAD:
            raise Unimplemented(f"{operation.name} is not there on this device; {_INSTEAD[operation.name]} ({source})")
        if operation.name.endswith(".custom_call") and _target(operation) == "tpu_custom_call":
            raise Unimplemented(
                "a Pallas kernel compiled by Mosaic is not supported on this device; trace it under "
                f"pltpu.force_tpu_interpret_mode() of jax.experimental.pallas.tpu ({source})"
            )
        shown = f"custom call {_target(operation)}" if operation.name.endswith(".custom_call") else operation.name
        raise Unimplemented(f"{shown} is not supported yet ({source})")
    return reader


def _own_name(operation: ir.Operation) -> str:
    return str(operation.name).split(".", 1)[1]


def _plain_name(operation: ir.Operation) -> str:
    name = _own_name(operation)
    if name != "custom_call":
        return name
    target = _target(operation)
    return target.removeprefix("mhlo.") if target.startswith("mhlo.") else _CUSTOM_CALLS.get(target, name)


def string(attribute: ir.Attribute) -> str:
    return str(ir.StringAttr(attribute).value)


def _target(operation: ir.Operation) -> str:
    return string(operation.attributes["call_target_name"])


def _ints(attribute: ir.Attribute) -> list[int]:
    """Integers of a dense array or dense elements attribute, flattened."""
    if isinstance(attribute, ir.DenseElementsAttr):
        return [int(value) for value in np.array(attribute).ravel()]
    return [int(value) for value in attribute]


def _optional_ints(operation: ir.Operation, name: str, default: list[int]) -> list[int]:
    return _ints(operation.attributes[name]) if name in operation.attributes else default


def _pairs(operation: ir.Operation, name: str, count: int) -> list[tuple[int, int]]:
    flat = _optional_ints(operation, name, [0] * (2 * count))
    return list(zip(flat[::2], flat[1::2], strict=True))


def _int(operation: ir.Operation, name: str) -> int:
    return int(ir.IntegerAttr(operation.attributes[name]).value)


def _bool(operation: ir.Operation, name: str) -> bool:
    return bool(ir.BoolAttr(operation.attributes[name]).value)


def _word(operation: ir.Operation, name: str, words: tuple[str, ...]) -> str:
    """Which of ``words`` an enum attribute is; the first if none."""
    found = re.findall(r"\b[A-Z_]+\b", str(operation.attributes[name]))
    return next((word for word in words if word in found), words[0])


def _nothing(_: ir.Operation) -> Attributes:
    return {}


def _array_reader(**fields: str) -> Reader:
    return lambda operation: {ours: _ints(operation.attributes[theirs]) for ours, theirs in fields.items()}


def _constant(operation: ir.Operation) -> Attributes:
    kind = tensor_type(operation.results[0].type)
    value = np.empty(kind.shape, kind.dtype)
    value[...] = _from_text(str(operation), kind) if kind.dtype in _TEXT_ONLY else _from_buffer(operation, kind)
    value.flags.writeable = False
    return {"value": value}


def _from_buffer(operation: ir.Operation, kind: TensorType) -> Any:
    dense = ir.DenseElementsAttr(operation.attributes["value"])
    if not dense.is_splat:
        return np.array(dense).astype(kind.dtype).reshape(kind.shape)
    splat = dense.get_splat_value()
    return np.asarray(splat.value).astype(kind.dtype)


_TEXT_ONLY = frozenset(
    np.dtype(_DTYPES[name]) for name in _DTYPES if not re.fullmatch(r"i1|u?i(8|16|32|64)|f(16|32|64)", name)
)
"""Types whose elements the bindings give in a constant's text only."""
_BLOB = re.compile(r'dense<"0x([0-9A-F]+)">')
_PAIR = re.compile(r"\(([^,()]+),([^,()]+)\)")
_NUMBER = re.compile(r"0x[0-9A-F]+|-?\d+(?:\.\d+(?:[eE][-+]?\d+)?)?")


def _from_text(text: str, kind: TensorType) -> Any:
    """Elements of the constant that is printed as ``text``: one for all of them, or in the constant's shape."""
    blob = _BLOB.search(text)
    if blob:
        elements = np.frombuffer(bytes.fromhex(blob.group(1)), kind.dtype)
    else:
        inside = text[text.index("dense<") : text.rindex("> :")]
        if kind.dtype.kind == "c":
            part = np.dtype(f"f{kind.dtype.itemsize // 2}")
            pairs = [[_element(number, part) for number in pair] for pair in _PAIR.findall(inside)]
            elements = np.array(pairs, part).view(kind.dtype).ravel()
        else:
            elements = np.array([_element(number, kind.dtype) for number in _NUMBER.findall(inside)], kind.dtype)
    return elements[0] if elements.size == 1 else elements.reshape(kind.shape)


def _element(text: str, dtype: np.dtype[Any]) -> Any:
    """A number as MLIR prints it: decimal, or the bits of a float in hexadecimal."""
    text = text.strip()
    if text.startswith("0x"):
        return np.frombuffer(bytes.fromhex(text[2:].zfill(2 * dtype.itemsize))[::-1], dtype)[0]
    return np.array(float(text)).astype(dtype)[()]


_COMPARISON = re.compile(r"\b(EQ|NE|LT|LE|GT|GE)\b")


def _compare(operation: ir.Operation) -> Attributes:
    total = "compare_type" in operation.attributes and "TOTALORDER" in str(operation.attributes["compare_type"])
    found = _COMPARISON.search(str(operation.attributes["comparison_direction"]))
    return {"direction": found.group(1) if found else "EQ", "total_order": total}


def _dot(operation: ir.Operation) -> Attributes:
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    return {
        "lhs_batch": list(numbers.lhs_batching_dimensions),
        "rhs_batch": list(numbers.rhs_batching_dimensions),
        "lhs_contract": list(numbers.lhs_contracting_dimensions),
        "rhs_contract": list(numbers.rhs_contracting_dimensions),
        "precision": _precision(operation),
    }


def _plain_dot(operation: ir.Operation) -> Attributes:
    last = len(ir.RankedTensorType(operation.operands[0].type).shape) - 1
    return {
        "lhs_batch": [],
        "rhs_batch": [],
        "lhs_contract": [last],
        "rhs_contract": [0],
        "precision": _precision(operation),
    }


def _precision(operation: ir.Operation) -> str:
    """ "DEFAULT", "HIGH" or "HIGHEST": what a dot's algorithm asks for, else the higher of the two operands'."""
    if "algorithm" in operation.attributes:
        return _algorithm_precision(str(operation.attributes["algorithm"]))
    text = str(operation.attributes["precision_config"]) if "precision_config" in operation.attributes else ""
    return next((name for name in ("HIGHEST", "HIGH") if re.search(rf"\b{name}\b", text)), "DEFAULT")


def _ragged_dot(operation: ir.Operation) -> Attributes:
    """Of CHLO or MHLO: their attributes have the same names, which no bindings read for both."""
    text = str(operation.attributes["ragged_dot_dimension_numbers"])

    def dims(name: str) -> list[int]:
        found = re.search(rf"{name}_dimensions = \[([\d, ]*)\]", text)
        return [int(number) for number in found.group(1).split(",")] if found else []

    (ragged,) = dims("lhs_ragged")
    return {
        "lhs_batch": dims("lhs_batching"),
        "rhs_batch": dims("rhs_batching"),
        "lhs_contract": dims("lhs_contracting"),
        "rhs_contract": dims("rhs_contracting"),
        "rhs_group": dims("rhs_group"),
        "ragged": ragged,
        "precision": _precision(operation),
    }


def _algorithm_precision(text: str) -> str:
    """Precision of a dot algorithm: the bfloat16 ones by their number of products, all others in full."""
    products = re.search(r"num_primitive_operations = (\d+)", text)
    if "lhs_precision_type = bf16" not in text or products is None:
        return "HIGHEST"
    return {1: "DEFAULT", 3: "HIGH"}.get(int(products.group(1)), "HIGHEST")


def _convolution(operation: ir.Operation) -> Attributes:
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    count = len(numbers.input_spatial_dimensions)
    ones = [1] * count
    return {
        "input": [numbers.input_batch_dimension, *numbers.input_spatial_dimensions, numbers.input_feature_dimension],
        "kernel": [
            *numbers.kernel_spatial_dimensions,
            numbers.kernel_input_feature_dimension,
            numbers.kernel_output_feature_dimension,
        ],
        "output": [
            numbers.output_batch_dimension,
            *numbers.output_spatial_dimensions,
            numbers.output_feature_dimension,
        ],
        "strides": _optional_ints(operation, "window_strides", ones),
        "padding": _pairs(operation, "padding", count),
        "lhs_dilation": _optional_ints(operation, "lhs_dilation", ones),
        "rhs_dilation": _optional_ints(operation, "rhs_dilation", ones),
        "reversal": [bool(flag) for flag in _optional_ints(operation, "window_reversal", [0] * count)],
        "feature_groups": _int(operation, "feature_group_count"),
        "batch_groups": _int(operation, "batch_group_count"),
        "precision": _precision(operation),
    }


def _gather(operation: ir.Operation) -> Attributes:
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    return {
        "offset_dims": list(numbers.offset_dims),
        "collapsed": list(numbers.collapsed_slice_dims),
        "operand_batching": list(numbers.operand_batching_dims),
        "indices_batching": list(numbers.start_indices_batching_dims),
        "start_index_map": list(numbers.start_index_map),
        "index_vector_dim": int(numbers.index_vector_dim),
        "slice_sizes": _ints(operation.attributes["slice_sizes"]),
    }


def _scatter(operation: ir.Operation) -> Attributes:
    numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
    return {
        "update_window": list(numbers.update_window_dims),
        "inserted": list(numbers.inserted_window_dims),
        "operand_batching": list(numbers.input_batching_dims),
        "indices_batching": list(numbers.scatter_indices_batching_dims),
        "scatter_dims": list(numbers.scattered_dims_to_operand_dims),
        "index_vector_dim": int(numbers.index_vector_dim),
    }


def _window(operation: ir.Operation) -> Attributes:
    sizes = _ints(operation.attributes["window_dimensions"])
    ones = [1] * len(sizes)
    return {
        "window": sizes,
        "strides": _optional_ints(operation, "window_strides", ones),
        "base_dilations": _optional_ints(operation, "base_dilations", ones),
        "window_dilations": _optional_ints(operation, "window_dilations", ones),
        "padding": _pairs(operation, "padding", len(sizes)),
    }


def _groups(operation: ir.Operation) -> Attributes:
    """Replica groups as rows of core numbers; [] means one group of all cores."""
    rows = np.array(ir.DenseElementsAttr(operation.attributes["replica_groups"]))
    return {"groups": [[int(core) for core in row if core >= 0] for row in rows] if rows.size else []}


def _with_groups(*names: str) -> Reader:
    return lambda operation: {**_groups(operation), **{name: _int(operation, name) for name in names}}


_PLACED = re.compile(r"maximal device=(\d+)")


def _host_transfer(operation: ir.Operation) -> Attributes:
    """Channel of a host callback, and the only core that takes part, None if all do. Raises Unimplemented."""
    if not _bool(operation, "is_host_transfer"):
        raise Unimplemented(f"{operation.name} between devices is not supported; use a collective such as lax.ppermute")
    handle = stablehlo.ChannelHandle(operation.attributes["channel_handle"])
    placed = _PLACED.search(
        str(operation.attributes["mhlo.sharding"]) if "mhlo.sharding" in operation.attributes else ""
    )
    return {"channel": int(handle.handle), "core": int(placed[1]) if placed else None}


def _permute(operation: ir.Operation) -> Attributes:
    flat = _ints(operation.attributes["source_target_pairs"])
    return {"pairs": list(zip(flat[::2], flat[1::2], strict=True))}


def _approximate_top_k(operation: ir.Operation) -> Attributes:
    """``largest`` is read from the comparator's body, the rest from the configuration."""
    configuration = ir.DictAttr(operation.attributes["mhlo.backend_config"])
    (comparator,) = ir.ArrayAttr(operation.attributes["called_computations"])
    body = _function(operation, str(ir.FlatSymbolRefAttr(comparator).value)).regions[0].blocks[0]
    comparison = next(inner.operation for inner in body.operations if inner.operation.name == "stablehlo.compare")
    return {
        "dimension": int(ir.IntegerAttr(configuration["reduction_dim"]).value),
        "k": int(ir.IntegerAttr(configuration["top_k"]).value),
        "aggregate": bool(ir.BoolAttr(configuration["aggregate_to_topk"]).value),
        "largest": _compare(comparison)["direction"] == "GT",
    }


def _rng(operation: ir.Operation) -> Attributes:
    if _word(operation, "rng_distribution", ("UNIFORM", "NORMAL")) == "NORMAL":
        raise Unimplemented("stablehlo.rng draws uniform numbers only; jax.random.normal makes normal ones from them")
    return {}


def _function(operation: ir.Operation, name: str) -> ir.Operation:
    """The function called ``name`` in the operation's module. Raises InvalidArgument if there is none."""
    module = operation
    while module.parent is not None:
        module = module.parent.operation
    for inner in module.regions[0].blocks[0].operations:
        if string(inner.operation.attributes["sym_name"]) == name:
            return inner.operation
    raise InvalidArgument(f"the module has no function called {name}")


_IDENTITIES = frozenset(
    {"optimization_barrier", "copy", "sharding_constraint", "reshard", "propagation_barrier", "sharding_group"}
)
_IDENTITY_CALLS = frozenset(
    {
        "Sharding",
        "dce_sink",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "xla.sdy.ShardingGroup",
        "LayoutConstraint",
        "InspectSharding",
    }
)

_INSTEAD = {
    "stablehlo.infeed": "pass the data as arguments (jax.device_put), or fetch it with jax.experimental.io_callback",
    "stablehlo.outfeed": "return the data, or hand it over with jax.debug.callback or jax.experimental.io_callback",
}

_READERS: dict[str, Reader] = {
    **dict.fromkeys(ELEMENTWISE, _nothing),
    "compare": _compare,
    "convert": _nothing,
    "bitcast_convert": _nothing,
    "reduce_precision": lambda op: {
        "exponent_bits": _int(op, "exponent_bits"),
        "mantissa_bits": _int(op, "mantissa_bits"),
    },
    "constant": _constant,
    "iota": lambda op: {"dimension": _int(op, "iota_dimension")},
    "partition_id": _nothing,
    "replica_id": _nothing,
    "reshape": _nothing,
    "transpose": _array_reader(permutation="permutation"),
    "broadcast_in_dim": _array_reader(dimensions="broadcast_dimensions"),
    "slice": _array_reader(starts="start_indices", limits="limit_indices", strides="strides"),
    "reverse": _array_reader(dimensions="dimensions"),
    "concatenate": lambda op: {"dimension": _int(op, "dimension")},
    "pad": _array_reader(low="edge_padding_low", high="edge_padding_high", interior="interior_padding"),
    "dynamic_slice": _array_reader(sizes="slice_sizes"),
    "dynamic_update_slice": _nothing,
    "gather": _gather,
    "scatter": _scatter,
    "sort": lambda op: {"dimension": _int(op, "dimension")},
    "topk": lambda op: {"k": _int(op, "k")},
    "top_k": lambda op: {"k": _int(op, "k")},
    "approx_top_k": _approximate_top_k,
    "rng": _rng,
    "rng_bit_generator": lambda op: {"algorithm": _word(op, "rng_algorithm", ("DEFAULT", "PHILOX", "THREE_FRY"))},
    "dot": _plain_dot,
    "dot_general": _dot,
    "ragged_dot": _ragged_dot,
    "convolution": _convolution,
    "reduce": _array_reader(dimensions="dimensions"),
    "reduce_window": _window,
    "select_and_scatter": _window,
    "while": _nothing,
    "case": _nothing,
    "if": _nothing,
    "create_token": _nothing,
    "after_all": _nothing,
    "allocate_buffer": _nothing,
    "send": _host_transfer,
    "recv": _host_transfer,
    "cholesky": lambda op: {"lower": _bool(op, "lower")},
    "triangular_solve": lambda op: {
        "left_side": _bool(op, "left_side"),
        "lower": _bool(op, "lower"),
        "unit_diagonal": _bool(op, "unit_diagonal"),
        "transpose": _word(op, "transpose_a", ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")),
    },
    "qr": _nothing,
    "householder_product": _nothing,
    "lu": _nothing,
    "eigh": _nothing,
    "fft": lambda op: {
        "kind": _word(op, "fft_type", ("FFT", "IFFT", "RFFT", "IRFFT")),
        "lengths": _ints(op.attributes["fft_length"]),
    },
    "all_reduce": _groups,
    "all_gather": _with_groups("all_gather_dim"),
    "all_to_all": _with_groups("split_dimension", "concat_dimension", "split_count"),
    "reduce_scatter": _with_groups("scatter_dimension"),
    "collective_permute": _permute,
    "collective_broadcast": _groups,
}

_CUSTOM_CALLS = {
    "Qr": "qr",
    "ProductOfElementaryHouseholderReflectors": "householder_product",
    "LuDecomposition": "lu",
    "Eigh": "eigh",
    "ApproxTopK": "approx_top_k",
    "AllocateBuffer": "allocate_buffer",
}

_RENAMED = {"dot": "dot_general", "topk": "top_k"}

SUPPORTED = frozenset(_READERS) - frozenset(_RENAMED)
