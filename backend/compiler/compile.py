"""How does a module become a program? Partition, import, simplify, schedule, plan memory, cost."""

from __future__ import annotations

from jaxlib.mlir import ir

from backend.compiler import stablehlo
from backend.compiler.context import new_context
from backend.compiler.cost import program_cost
from backend.compiler.entry import keep_said
from backend.compiler.inspection import read_report
from backend.compiler.invariants import capture_invariants
from backend.compiler.layouts import MODE, layout_modes, settle_layouts
from backend.compiler.memory import largest_buffers, needed_bytes, plan_memory, usable_donations
from backend.compiler.options import assigned_devices, check_overrides, read_options
from backend.compiler.partition import PARTITIONER
from backend.compiler.placement import MEMORY, drop_marks, memories
from backend.compiler.program import Computation, Program
from backend.compiler.rounding import round_operands
from backend.compiler.schedule import schedule
from backend.compiler.shortage import out_of_memory
from backend.compiler.simplify import simplify
from backend.errors import InvalidArgument, ResourceExhausted, Unimplemented
from backend.hardware import Generation

_DONATED = "mhlo.tpuctl_donated"
"""Attribute of a module that is partitioned already, as programs keep it: the numbers of its donated parameters."""


def compile_module(module: bytes, compile_options: bytes, generation: Generation) -> Program:
    """See backend.compiler.compile_module."""
    options = read_options(compile_options)
    build = options.executable_build_options
    replicas, partitions = build.num_replicas, build.num_partitions
    if replicas < 1 or partitions < 1:
        raise InvalidArgument("the compile options name no replica or no partition")
    if replicas > 1:
        raise Unimplemented(
            "programs with several replicas are not supported; use one program over all cores (jit, shard_map)"
        )
    check_overrides(options, PARTITIONER)
    context = new_context()
    with context:
        source = stablehlo.parse(module, context)
        argument_memories, result_memories = memories(source)
        modes = layout_modes(source)
        if partitions > 1 and _DONATED not in source.operation.attributes:
            stablehlo.check_supported(source)
            drop_marks(source)
            hlo, report = PARTITIONER.partition(stablehlo.bytecode(source), compile_options, partitions)
            local, inspections = stablehlo.parse_hlo(hlo, context), read_report(report)
        else:
            local, inspections = source, []
        simplified = simplify(stablehlo.import_module(local))
        argument_layouts, result_layouts = settle_layouts(simplified, modes)
        donated = usable_donations(simplified, _offered(source))
        body = round_operands(capture_invariants(simplified))
        replicated = [_is_replicated(row) for row in stablehlo.argument_attributes(local)]
        if partitions == 1:
            replicated = [True] * len(body.parameters)
        else:
            local.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(
                ir.IntegerType.get_signless(32), partitions
            )
            local.operation.attributes[_DONATED] = ir.DenseI64ArrayAttr.get(donated)
            keep_said(local, MEMORY, (argument_memories, result_memories))
            keep_said(local, MODE, modes)
        scheduled = schedule(body, replicated, partitions)
        program = Program(
            name=str(ir.StringAttr(source.operation.attributes["sym_name"]).value),
            num_replicas=1,
            num_partitions=partitions,
            device_ids=assigned_devices(build),
            body=body,
            schedule=scheduled,
            donated=donated,
            replicated=replicated,
            memory=plan_memory(simplified, donated),
            cost=program_cost(scheduled, partitions, generation),
            optimized_module=stablehlo.bytecode(local),
            argument_memories=argument_memories,
            result_memories=result_memories,
            argument_layouts=argument_layouts,
            result_layouts=result_layouts,
            inspections=inspections,
        )
    _check_fits(program, simplified, generation)
    return program


def warm_up() -> None:
    """Get ready what the first program needs: the partitioner process and the MLIR dialects."""
    PARTITIONER.start()
    with new_context():
        pass


def _offered(module: ir.Module) -> list[int]:
    """The parameters whose memory the script lets a program reuse."""
    if _DONATED in module.operation.attributes:
        return list(ir.DenseI64ArrayAttr(module.operation.attributes[_DONATED]))
    rows = stablehlo.argument_attributes(module)
    return [i for i, row in enumerate(rows) if "tf.aliasing_output" in row or "jax.buffer_donor" in row]


def _is_replicated(attributes: dict[str, ir.Attribute]) -> bool:
    sharding = attributes.get("mhlo.sharding")
    return sharding is not None and str(ir.StringAttr(sharding).value) == "{replicated}"


def _check_fits(program: Program, simplified: Computation, generation: Generation) -> None:
    """Raise ResourceExhausted, in the TPU compiler's words, if one core's HBM is too small for the program."""
    needed, available = needed_bytes(program.memory), generation.hbm_available_bytes
    if needed <= available:
        return
    raise ResourceExhausted(out_of_memory(needed, available, largest_buffers(simplified, program.donated, 10)))
