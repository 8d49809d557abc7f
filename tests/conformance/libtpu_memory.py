"""How far is our memory plan from the TPU compiler's? Both compile the same programs for v3, and a table says.

Needs libtpu (pip install libtpu), but no TPU:

    python -m tests.conformance.libtpu_memory [NAME...] [--record]

``--record`` writes the TPU compiler's answers to memory_oracle.json, with which the default test suite compares;
with names, those of these programs alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import itertools
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.compiler import get_compile_options
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from backend.compiler import compile_module
from backend.compiler.partition import PARTITIONER
from backend.hardware import generation
from tests.conformance.memory_programs import CASES, Case

ORACLE = Path(__file__).with_name("memory_oracle.json")
FIELDS = ("argument", "output", "alias", "temp")
QUIET = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v3-8", "TPU_WORKER_HOSTNAMES": "localhost"}


def total(answer: dict[str, int]) -> int:
    """Bytes of one core's HBM that a program needs."""
    return answer["argument"] + answer["output"] - answer["alias"] + answer["temp"]


def lower(case: Case, devices: list[Any]) -> Any:
    """The program of ``case``, lowered for a mesh of the first of ``devices``, replicated where it says nothing."""
    mesh = Mesh(np.array(devices[: math.prod(case.mesh)]).reshape(case.mesh), ("x", "y")[: len(case.mesh)])
    specs = case.specs or (P(),) * len(case.arguments)
    arguments = [
        jax.tree.map(
            lambda leaf, spec=spec: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec)),
            argument,
        )
        for argument, spec in zip(case.arguments, specs, strict=True)
    ]
    traced = jax.jit(case.function, donate_argnums=case.donated).trace(*arguments)
    return traced.lower(lowering_platforms=("tpu",))


def ours(case: Case) -> dict[str, int]:
    """What our compiler says."""
    cores = math.prod(case.mesh)
    code = io.BytesIO()
    lower(case, jax.devices("cpu")).compiler_ir("stablehlo").operation.write_bytecode(code)
    options = get_compile_options(1, cores, device_assignment=np.arange(cores).reshape(1, cores))
    memory = compile_module(code.getvalue(), options.SerializeAsString(), generation("v3")).memory
    return {field: getattr(memory, f"{field}_bytes") for field in FIELDS}


def libtpu(case: Case, devices: list[Any]) -> dict[str, int]:
    """What the TPU compiler says."""
    analysis = lower(case, devices).compile().memory_analysis()
    return {field: getattr(analysis, f"{field}_size_in_bytes") for field in FIELDS}


_DTYPES = "float32 bfloat16 int8 bool int4 int2 float8_e4m3fn complex64".split()
_SHAPES = [
    *[(), (1,), (7,), (128,), (256,), (257,), (512,), (1000,), (1025,), (5000,)],
    *[(1, 1), (1, 300), (2, 300), (3, 300), (4, 300), (5, 300), (9, 300), (17, 300), (33, 300)],
    *[(300, 1), (300, 2), (300, 3), (1000, 300), (300, 300), (128, 10), (16, 16), (0, 3)],
    *[(1, 128, 1), (8, 1, 300), (5, 1, 1), (64, 7, 9), (2, 3, 4, 5), (3, 3, 1, 32), (3, 3, 32, 64)],
    *[(128, 28, 28, 1), (64, 512, 128, 2), (2, 2, 2, 2, 200), (10, 10, 10, 10, 10)],
]
_LAYOUT = re.compile(r"\w+\[([\d,]*)\]\{([^}]*)\}")


def layouts(device: Any) -> Iterator[tuple[str, list[int], str, int]]:
    """Default layout and bytes of many small buffers, as the TPU compiler chooses them: dtype, shape, layout, bytes."""
    for dtype, shape in itertools.product(_DTYPES, _SHAPES):
        leaf = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype), sharding=jax.sharding.SingleDeviceSharding(device))
        compiled = jax.jit(lambda _: (), keep_unused=True).trace(leaf).lower(lowering_platforms=("tpu",)).compile()
        head = compiled.as_text().split("entry_computation_layout={", 1)[1]
        found = _LAYOUT.search(head)
        yield dtype, list(shape), found.group(2) if found else "", compiled.memory_analysis().argument_size_in_bytes


def print_row(name: str, theirs: dict[str, int], mine: dict[str, int]) -> None:
    equal = all(theirs[field] == mine[field] for field in FIELDS[:-1])
    cells = [f"{answer[field] / 1e6:9.2f}" for answer in (theirs, mine) for field in ("argument", "output", "alias")]
    sizes = f"{theirs['temp'] / 1e6:9.2f} {mine['temp'] / 1e6:9.2f} {total(theirs) / 1e6:9.2f} {total(mine) / 1e6:9.2f}"
    mark = "equal" if equal else "DIFFER " + " ".join(cells)
    print(f"{name:28} {mark:6} {sizes} {total(mine) / total(theirs) - 1:+8.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="parts of the names of programs; all if none")
    parser.add_argument("--record", action="store_true", help=f"write the answers to {ORACLE.name}")
    parser.add_argument("--recorded", action="store_true", help=f"compare with {ORACLE.name} instead of libtpu")
    options = parser.parse_args()
    os.environ.update(QUIET)
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    recorded = json.loads(ORACLE.read_text()) if options.recorded or options.names else {"programs": {}}
    answers: dict[str, dict[str, int]] = recorded["programs"]
    topology = None if options.recorded else topologies.get_topology_desc(platform="tpu", topology_name="v3:2x2")
    print(f"{'':28} {'args':6} {'temporaries, MB':>19} {'total, MB':>19}")
    print(f"{'program':28} {'etc.':6} {'libtpu':>9} {'tpuctl':>9} {'libtpu':>9} {'tpuctl':>9} {'':>8}")
    try:
        for name, case in CASES.items():
            if options.names and not any(part in name for part in options.names):
                continue
            if topology is not None:
                answers[name] = libtpu(case, topology.devices)
            print_row(name, answers[name], ours(case))
    finally:
        PARTITIONER.close()
    if options.record and topology is not None:
        record(answers, recorded["layouts"] if options.names else list(layouts(topology.devices[0])))


def record(programs: dict[str, dict[str, int]], rows: list[Any]) -> None:
    """Write the TPU compiler's answers, one a line."""
    version = importlib.metadata.version("libtpu")
    head = json.dumps({"libtpu": version, "topology": "v3:2x2"})[1:-1]
    answers = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in programs.items())
    buffers = ",\n".join(json.dumps(row) for row in rows)
    ORACLE.write_text(f'{{{head},\n"programs": {{\n{answers}\n}},\n"layouts": [\n{buffers}\n]}}\n')
    print(f"{len(programs)} programs and {len(rows)} layouts of libtpu {version} written to {ORACLE}")


if __name__ == "__main__":
    main()
