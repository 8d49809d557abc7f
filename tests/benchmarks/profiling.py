"""Where does a step's time go? By kernel, beside what this machine could do at best.

``python profiling.py WORKLOAD CORES`` compiles the workload and runs it in this process. A kernel's limit is the larger
of its products at the rate of a large matrix product, and of its operands and results at the rate of a large copy, both
measured here and now. Times are processor seconds of all threads, so that they mean something on a busy machine too.
The time of a loop is what is left of it without its body.
"""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
STEPS = 3
KERNELS_SHOWN = 12
WIDTH = 150


@dataclass
class Entry:
    """What all runs of a kernel with the same shapes took; ``flops`` and ``nbytes`` are those of one run."""

    op: str
    shapes: str
    flops: float
    nbytes: float
    calls: int = 0
    seconds: float = 0.0

    def limit(self, rates: tuple[float, float]) -> float:
        """Processor seconds of all runs at the machine's rates."""
        return self.calls * max(self.flops / rates[0], self.nbytes / rates[1])


class Profile:
    """Wraps an engine's table of kernels so that each step is timed."""

    def __init__(self) -> None:
        self.entries: dict[Any, Entry] = {}
        self._inner = [0.0]

    def wrap(self, kernel: Any) -> Any:
        """The kernel, timed."""
        from backend.tensorcore.lowering import Kernel

        def build(site: Any) -> Callable[[Any], None]:
            step = kernel.build(site)
            entry = Entry(_name(site), _shapes(site), _flops(site), _nbytes(site))
            entry = self.entries.setdefault((entry.op, entry.shapes), entry)

            def timed(environment: Any) -> None:
                self._inner.append(0.0)
                start = time.process_time()
                step(environment)
                seconds = time.process_time() - start
                entry.calls += 1
                entry.seconds += seconds - self._inner.pop()
                self._inner[-1] += seconds

            return timed

        return Kernel(build, kernel.view, kernel.in_place)

    def clear(self) -> None:
        for entry in self.entries.values():
            entry.calls, entry.seconds = 0, 0.0


def _name(site: Any) -> str:
    return site.instruction.op + (", summed over cores" if site.attributes.get("over_cores") else "")


def _shapes(site: Any) -> str:
    operands = [site.operand(i) for i in range(min(2, len(site.instruction.operands)))]
    sources = " ".join(f"{a.dtype}[{','.join(map(str, a.shape))}]" for a in operands)
    return f"{sources} -> [{','.join(map(str, site.result_shape()))}]" if site.instruction.results else sources


def _flops(site: Any) -> float:
    """Products and sums on the matrix unit, of all cores together."""
    instruction = site.instruction
    if instruction.op not in {"dot_general", "convolution"}:
        return 0.0
    lhs, rhs = site.operand_type(0).shape, site.operand_type(1).shape
    if instruction.op == "dot_general":
        depth = [lhs[d] for d in site.attributes["lhs_contract"]]
    else:
        depth = [rhs[d] for d in site.attributes["kernel"]][:-1]
    cores = 1 if site.uniform(0) and site.uniform(1) else site.num_cores
    return 2.0 * cores * site.result_type().size * float(np.prod(depth, dtype=np.float64))


def _nbytes(site: Any) -> float:
    """Bytes of operands and results in memory, as far as they are touched."""
    if site.instruction.op == "dynamic_slice":
        return 2.0 * float(np.prod(site.result_shape(), dtype=np.float64)) * site.result_type().dtype.itemsize
    if site.instruction.op == "dynamic_update_slice":
        return 2.0 * site.operand(1).nbytes
    arrays = [site.operand(i) for i in range(len(site.instruction.operands))]
    read = sum(
        a.itemsize * float(np.prod([n for n, step in zip(a.shape, a.strides, strict=True) if step], dtype=np.float64))
        for a in arrays
    )
    return read + sum(
        float(np.prod(site.result_shape(i), dtype=np.float64)) * site.result_type(i).dtype.itemsize
        for i in range(len(site.instruction.results))
    )


def machine_rates(workers: Any) -> tuple[float, float]:
    """FLOPs of a matrix product, and bytes read and written by a copy, a processor second; all threads at work."""
    a, b, c = (np.ones((2048, 2048), np.float32) for _ in range(3))
    source, target = np.ones(1 << 25, np.float32), np.ones(1 << 25, np.float32)
    half, part = 2048 // workers.count, (1 << 25) // 64

    def multiply(chunk: int, _: int) -> None:
        np.matmul(a[chunk * half : (chunk + 1) * half], b, out=c[chunk * half : (chunk + 1) * half])

    def copy(chunk: int, _: int) -> None:
        np.copyto(target[chunk * part : (chunk + 1) * part], source[chunk * part : (chunk + 1) * part])

    return 2 * 2048**3 / _best(workers, workers.count, multiply), 2 * source.nbytes / _best(workers, 64, copy)


def _best(workers: Any, chunks: int, work: Callable[[int, int], None]) -> float:
    times = []
    for _ in range(5):
        start = time.process_time()
        workers.run(chunks, work)
        times.append(time.process_time() - start)
    return min(times)


def main(workload: str, cores: int) -> None:
    """Print the tables of one workload."""
    import jax
    from jax._src.compiler import get_compile_options

    from backend.compiler import compile_module
    from backend.compiler.partition import PARTITIONER
    from backend.hardware import generation
    from backend.ici import collectives
    from backend.tensorcore.engine import KERNELS, Engine

    function, state, data = importlib.import_module(f"workloads.{workload}").setup()
    module = function.trace(state, *data).lower(lowering_platforms=("tpu",)).compiler_ir("stablehlo")
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    options = get_compile_options(1, cores, device_assignment=np.arange(cores).reshape(1, cores))
    program = compile_module(code.getvalue(), options.SerializeAsString(), generation("v3"))
    PARTITIONER.close()
    profile = Profile()
    kernels = {name: profile.wrap(kernel) for name, kernel in {**KERNELS, **collectives.KERNELS}.items()}
    engine = Engine(kernels)
    loaded = engine.load(program)
    arguments = [_value(leaf) for leaf in jax.tree.leaves((state, *data))]
    kept = len(jax.tree.leaves(state))
    for step in range(STEPS + 1):
        if step == 1:
            profile.clear()
        results = loaded.run(arguments).results
        for value in (*arguments[:kept], *results[kept:]):
            engine.pool.give(value.array)
        arguments = [*results[:kept], *arguments[kept:]]
    show_tables(workload, list(profile.entries.values()), machine_rates(engine.workers))


def _value(leaf: Any) -> Any:
    from backend.tensorcore.value import Value

    if len(leaf.devices()) == 1 or leaf.sharding.is_fully_replicated:
        return Value(np.array(leaf, order="C"), True)
    shards = sorted(leaf.addressable_shards, key=lambda shard: shard.device.id)
    return Value(np.stack([np.asarray(shard.data) for shard in shards]), False)


def show_tables(workload: str, entries: list[Entry], rates: tuple[float, float]) -> None:
    """By operation, then the kernels that take longest."""
    console = Console(width=WIDTH)
    total = sum(entry.seconds for entry in entries)
    console.print(
        f"{workload}: {total / STEPS * 1e3:,.1f} ms of processor time a step in kernels; one processor of this machine "
        f"reaches {rates[0] / 1e9:.0f} GFLOP/s and {rates[1] / 1e9:.1f} GB/s"
    )
    by_op: dict[str, list[Entry]] = {}
    for entry in entries:
        by_op.setdefault(entry.op, []).append(entry)
    for title, groups in (
        ("by operation", list(by_op.items())),
        ("largest kernels", [(f"{e.op} {e.shapes}", [e]) for e in entries]),
    ):
        table = Table(title=title)
        for column in ("", "runs", "ms", "share", "at the limit, ms", "of the limit"):
            table.add_column(column, justify="left" if not column else "right")
        groups.sort(key=lambda group: -sum(e.seconds for e in group[1]))
        for name, members in groups[:KERNELS_SHOWN]:
            seconds, limit = sum(e.seconds for e in members), sum(e.limit(rates) for e in members)
            if seconds:
                table.add_row(
                    name,
                    str(sum(e.calls for e in members) // STEPS),
                    f"{seconds / STEPS * 1e3:,.1f}",
                    f"{seconds / total:.0%}",
                    f"{limit / STEPS * 1e3:,.1f}",
                    f"{limit / seconds:.0%}",
                )
        console.print(table)


def show(workload: str, cores: int) -> None:
    """Profile a workload in a process of its own."""
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={cores}",
    }
    subprocess.run([sys.executable, str(HERE / "profiling.py"), workload, str(cores)], env=environment, check=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
