"""The life of a buffer on the slice: made, used, shared, donated, released; and its bytes of HBM."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from backend.link.arena import REGION_BYTES
from backend.link.messages import POSITIONS, Copy, Fetch, Put, Region, Release, Stage

ONES = np.ones(4, "float32")


def test_data_comes_back_as_it_was_put(driver) -> None:
    driver.put(1, np.arange(4, dtype="float32"))
    assert driver.floats(1, 4) == [0, 1, 2, 3]


def test_a_buffer_takes_hbm_until_it_is_released(driver) -> None:
    driver.put(1, ONES, core=2)
    assert driver.memory(2) == 16
    driver.link.send(Release([1]))
    assert driver.memory(2) == 0


def test_a_number_used_again_frees_the_buffer_that_had_it(driver) -> None:
    for _ in range(4):
        driver.put(7, ONES, core=2)
    assert driver.memory(2) == 16


def test_a_program_makes_buffers_that_the_next_one_takes(driver) -> None:
    driver.compile(1, "add1")
    driver.put(1, ONES)
    for step in range(3):
        driver.execute(1, [step + 1], step + 2)
    assert driver.floats(4, 4) == [4, 4, 4, 4]


def test_a_donated_buffer_is_dead_and_its_memory_free(driver) -> None:
    driver.compile(1, "add1 in place")
    driver.put(1, ONES)
    driver.execute(1, [1], 2)
    assert driver.memory() == 16
    with pytest.raises(KeyError, match="deleted or donated"):
        driver.fetch(1, 16)
    assert driver.floats(2, 4) == [2, 2, 2, 2]


def test_a_parameter_can_be_kept_from_donation(driver) -> None:
    driver.compile(1, "add1 in place")
    driver.put(1, ONES)
    driver.execute(1, [1], 2, keep=[0])
    assert driver.floats(1, 4) == [1, 1, 1, 1]


def test_memory_of_a_donated_argument_is_not_reused_while_the_program_runs(running, driver) -> None:
    driver.compile(1, "add1 in place")
    driver.put(1, ONES)
    running.machine.recipes["add1 in place"].function = lambda a: [np.full(4, len(running.machine.recycled), "float32")]
    driver.execute(1, [1], 2)
    assert driver.floats(2, 4) == [0, 0, 0, 0]
    assert len(running.machine.recycled) == 1


def test_shards_of_one_launch_go_into_the_next_as_they_are(running, driver) -> None:
    driver.compile(1, "add1 on 4")
    for core in range(4):
        driver.put(core + 1, np.full(4, core, "float32"), core)
    driver.execute(1, [[1, 2, 3, 4]], 10)
    driver.execute(1, [10], 20)
    assert [driver.floats(20, 4, core)[0] for core in range(4)] == [2, 3, 4, 5]
    (first,), (second,) = running.machine.seen
    assert not first.uniform
    assert first.array.shape == (4, 4)
    assert second.array.base is None


def test_loose_buffers_are_assembled_once(running, driver) -> None:
    driver.compile(1, "add1 on 4")
    for core in range(4):
        driver.put(core + 1, np.full(4, core, "float32"), core)
    driver.execute(1, [[1, 2, 3, 4]], 10)
    driver.wait(driver.execute(1, [[1, 2, 3, 4]], 20))
    (first,), (second,) = running.machine.seen
    assert first.array is second.array


def test_equal_buffers_become_one_uniform_value(running, driver) -> None:
    driver.compile(1, "add1 on 4")
    for core in range(4):
        driver.put(core + 1, ONES, core)
    driver.wait(driver.execute(1, [[1, 2, 3, 4]], 10))
    assert running.machine.seen[0][0].uniform


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1.0, 1.0000001)])
def test_buffers_that_differ_in_a_bit_are_not_uniform(running, driver, one: float, other: float) -> None:
    driver.compile(1, "add1 on 4")
    for core in range(4):
        driver.put(core + 1, np.full(4, other if core == 3 else one, "float32"), core)
    driver.wait(driver.execute(1, [[1, 2, 3, 4]], 10))
    assert not running.machine.seen[0][0].uniform


def test_memory_of_an_assembled_value_outlives_the_first_buffer(running, driver) -> None:
    driver.compile(1, "add1 on 4")
    for core in range(4):
        driver.put(core + 1, ONES, core)
    driver.execute(1, [[1, 2, 3, 4]], 10)
    driver.link.send(Release([1, 2, 3]))
    driver.memory()
    assert all(value.array is not running.machine.seen[0][0].array for value in running.machine.recycled)
    driver.link.send(Release([4]))
    driver.memory()
    assert any(value.array is running.machine.seen[0][0].array for value in running.machine.recycled)


def test_a_copy_on_another_core_outlives_its_source(driver) -> None:
    driver.put(1, ONES)
    driver.submit(lambda sequence: Copy(sequence, 1 * POSITIONS, 2 * POSITIONS, 5, "device"))
    driver.link.send(Release([1]))
    assert driver.floats(2, 4) == [1, 1, 1, 1]
    assert (driver.memory(0), driver.memory(5)) == (0, 16)


def test_a_copy_in_host_memory_takes_no_hbm(driver) -> None:
    driver.put(1, ONES)
    driver.submit(lambda sequence: Copy(sequence, 1 * POSITIONS, 2 * POSITIONS, 5, "pinned_host"))
    assert driver.floats(2, 4) == [1, 1, 1, 1]
    assert driver.memory(5) == 0


def test_data_may_come_in_parts(driver) -> None:
    data = np.arange(4, dtype="float32").tobytes()
    driver.link.send(Stage(1 * POSITIONS, 16, data[:4]))
    driver.link.send(Stage(1 * POSITIONS, 16, data[4:8]))
    driver.submit(lambda sequence: Put(sequence, 1 * POSITIONS, 0, "device", "float32", [4], data[8:]))
    assert driver.floats(1, 4) == [0, 1, 2, 3]


def test_data_may_travel_through_the_arena_both_ways(connect) -> None:
    driver = connect()
    driver.link.arena.view(Region(REGION_BYTES, 16))[:] = np.arange(4, dtype="float32").tobytes()
    region = Region(REGION_BYTES, 16)
    driver.submit(lambda sequence: Put(sequence, 1 * POSITIONS, 0, "device", "float32", [4], region))
    driver.wait(driver.submit(lambda sequence: Fetch(sequence, 1 * POSITIONS, 4, 12, Region(0, 12))))
    assert np.frombuffer(driver.link.arena.view(Region(0, 12)), "float32").tolist() == [1, 2, 3]


def test_what_does_not_fit_hbm_is_refused_with_sizes(running, driver) -> None:
    driver.compile(1, "16 GiB")
    driver.put(1, ONES)
    failure = driver.wait(driver.execute(1, [1], 2))
    assert failure.code == 8
    assert "16.00G" in failure.message
    assert "15.48G" in failure.message
    assert running.machine.seen == []


def test_a_put_larger_than_hbm_fails_alone(driver) -> None:
    driver.link.send(Stage(1 * POSITIONS, 17 << 30, b"1234"))
    driver.put(2, ONES)
    assert driver.floats(2, 4) == [1, 1, 1, 1]


def test_an_error_takes_the_place_of_results_and_goes_on_to_what_uses_them(driver) -> None:
    driver.compile(1, "fail")
    driver.compile(2, "add1")
    driver.put(1, ONES)
    failed = driver.execute(1, [1], 2)
    follower = driver.execute(2, [2], 3)
    assert driver.wait(failed).message == "the program failed"
    assert driver.wait(follower).message == "the program failed"
    with pytest.raises(KeyError, match="the program failed"):
        driver.fetch(3, 16)
    driver.execute(2, [1], 4)
    assert driver.floats(4, 4) == [2, 2, 2, 2]


def test_a_crash_of_the_engine_is_an_error_of_that_launch_only(driver) -> None:
    driver.compile(1, "crash")
    driver.put(1, ONES)
    failure = driver.wait(driver.execute(1, [1], 2))
    assert failure.code == 13
    assert "IndexError" in failure.message
    assert driver.floats(1, 4) == [1, 1, 1, 1]


def test_an_argument_of_the_wrong_type_is_refused(driver) -> None:
    driver.compile(1, "add1")
    driver.put(1, np.ones(5, "float32"))
    assert "must be float32[4], but is float32[5]" in driver.wait(driver.execute(1, [1], 2)).message


def test_wrong_numbers_of_arguments_cores_and_executables_are_refused(driver) -> None:
    driver.compile(1, "add1")
    driver.put(1, ONES)
    assert "but got 2 for" in driver.wait(driver.execute(1, [1, 1], 2)).message
    assert "not loaded" in driver.wait(driver.execute(9, [1], 3)).message
    assert "core 99" in driver.wait(driver.put(4, ONES, core=99)).message


def test_arguments_of_a_failed_launch_are_free_without_a_garbage_collection(running, driver) -> None:
    driver.compile(1, "fail")
    driver.put(1, ONES)
    gc.disable()
    try:
        driver.wait(driver.execute(1, [1], 2))
        driver.link.send(Release([1]))
        driver.memory()
        assert len(running.machine.recycled) == 1
    finally:
        gc.enable()
