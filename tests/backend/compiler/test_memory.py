"""The memory plan of a program: beside the TPU compiler's own, and what is said of one that doesn't fit."""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from backend.errors import ResourceExhausted
from tests.backend.conftest import Chips
from tests.conformance.libtpu_memory import FIELDS, ORACLE, ours, total
from tests.conformance.memory_programs import CASES

MIB = 1 << 20
ANSWERS: dict[str, dict[str, int]] = json.loads(ORACLE.read_text())["programs"]


def test_every_program_has_a_recorded_answer() -> None:
    assert set(ANSWERS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_plans_are_close_to_the_tpu_compilers(name: str) -> None:
    """Arguments, outputs and aliases to the byte, the total within 30%."""
    expected, actual = ANSWERS[name], ours(CASES[name])
    assert {field: actual[field] for field in FIELDS[:-1]} == {field: expected[field] for field in FIELDS[:-1]}
    assert total(actual) == pytest.approx(total(expected), rel=0.3)


def test_donated_arguments_are_counted_once(chips: Chips) -> None:
    x = np.zeros((1024, 1024), np.float32)
    plain = chips.compile(lambda x: x * 2, x).memory
    donating = chips.compile(lambda x: x * 2, x, donate_argnums=0).memory
    assert (plain.argument_bytes, plain.output_bytes, plain.alias_bytes) == (4 * MIB, 4 * MIB, 0)
    assert donating.alias_bytes == 4 * MIB


def temporaries(chips: Chips, function: Any, *shape: int) -> float:
    return chips.compile(function, np.zeros(shape, np.float32)).memory.temp_bytes / MIB


def test_elementwise_values_are_computed_where_they_are_read(chips: Chips) -> None:
    assert temporaries(chips, lambda x: jnp.sum(jnp.tanh(x) * jnp.exp(x)), 1024, 1024) < 0.1


def test_operands_of_the_matrix_unit_are_stored_in_bfloat16(chips: Chips) -> None:
    def both_sides(x: Any) -> Any:
        y = jnp.tanh(x @ x)
        return y @ y.T

    assert temporaries(chips, both_sides, 1024, 1024) == 2


def test_precise_products_need_no_memory_for_the_parts_of_their_operands(chips: Chips) -> None:
    def precise(x: Any) -> Any:
        return jnp.sum(jnp.matmul(x, x, precision="highest"))

    assert temporaries(chips, precise, 1024, 1024) < 0.1


def test_temporaries_that_are_not_live_together_share_memory(chips: Chips) -> None:
    def deep(x: Any) -> Any:
        for _ in range(8):
            x = jnp.sort(x, axis=0)
        return jnp.sum(x)

    shallow = temporaries(chips, lambda x: jnp.sum(jnp.sort(x, axis=0)), 1024, 1024)
    assert temporaries(chips, deep, 1024, 1024) == pytest.approx(shallow, abs=4.1)


def test_loops_keep_what_they_carry_once(chips: Chips) -> None:
    def loop(x: Any) -> Any:
        return jnp.sum(jax.lax.fori_loop(0, 9, lambda i, carried: carried.at[i].set(2.0), x * 2))

    assert temporaries(chips, loop, 1024, 1024) == pytest.approx(4, abs=0.1)


def too_large(x: Any) -> Any:
    return (x[:, None] @ x[None, :]).sum() + jnp.sort(jnp.outer(x, x), axis=0)[0, 0]


@pytest.fixture(scope="module")
def refusal(chips: Chips) -> str:
    with pytest.raises(ResourceExhausted) as refused:
        chips.compile(too_large, jax.ShapeDtypeStruct((80_000,), jnp.float32))
    return refused.value.message


def test_a_program_too_large_for_hbm_is_refused_in_the_tpu_compilers_words(refusal: str) -> None:
    assert re.match(
        r"Ran out of memory on HBM, the total memory required for HLO temporaries \(\d+\.\d\dG\) "
        r"exceeds available HBM \(15\.48G\)\.\n",
        refusal,
    )


def test_the_largest_buffers_of_a_program_too_large_are_listed_with_their_lines(refusal: str) -> None:
    first = refusal.split("Largest program allocations in hbm:\n\n")[1].split("\n\n", maxsplit=1)[0]
    line = too_large.__code__.co_firstlineno + 1
    assert re.search(rf'Operator: op_type="(sort|multiply)" source_file=".*test_memory.py" source_line={line}\n', first)
    assert "Shape: f32[80000,80000]{1,0:T(8,128)}\n     Unpadded size: 23.84G" in first
    assert "Allocation type: HLO temp" in first


def test_padding_is_shown_where_buffers_are_padded(chips: Chips) -> None:
    kind = jax.ShapeDtypeStruct((70, 70, 70, 70, 70), jnp.float32)
    with pytest.raises(ResourceExhausted, match=r"\(1\.9x expansion\)\n     Allocation type: argument"):
        chips.compile(lambda x: jnp.sort(x, axis=2), kind)


def test_no_more_than_the_ten_largest_buffers_are_listed(chips: Chips) -> None:
    kinds = [jax.ShapeDtypeStruct((1024, 1024, 512), jnp.float32)] * 12
    with pytest.raises(ResourceExhausted) as refused:
        chips.compile(lambda *x: sum(jnp.sum(part) for part in x), *kinds)
    assert re.findall(r"^  (\d+)\. Size: 2\.00G$", refused.value.message, re.MULTILINE) == list(map(str, range(1, 11)))
