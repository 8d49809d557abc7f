"""Several processes of one job on a slice: shared launches, and what becomes of those that can't start."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backend.compiler.program import TensorType
from backend.errors import FailedPrecondition, InvalidArgument
from backend.link.client import status
from backend.link.messages import Compile, Notice, Put, Release
from tests.backend.runtime.conftest import F4, Driver, Recipe, Running

VECTOR = TensorType((2,), F4)
HOSTS = 4
CORES = 32
ONES = np.ones(2, "float32")


@pytest.fixture
def slices() -> int:
    return HOSTS


def _add(count: float) -> Callable[[list[np.ndarray[Any, Any]]], list[np.ndarray[Any, Any]]]:
    return lambda arrays: [arrays[0] + np.float32(count)]


@pytest.fixture(autouse=True)
def _recipes(running: Running) -> None:
    everywhere = list(range(CORES))
    crossed = [core for pair in zip(range(16), range(16, 32), strict=True) for core in pair]
    own = {f"add1 on {host}": Recipe(_add(1), [VECTOR], [VECTOR], [host * 8], source="a.py:1") for host in range(HOSTS)}
    running.machine.recipes |= own | {
        "step": Recipe(_add(1), [VECTOR], [VECTOR], everywhere, source="/home/me/train.py:41"),
        "step in place": Recipe(_add(1), [VECTOR], [VECTOR], everywhere, [0], source="/home/me/train.py:41"),
        "eval": Recipe(_add(10), [VECTOR], [VECTOR], everywhere, source="/home/me/train.py:57"),
        "crossed": Recipe(_add(1), [VECTOR], [VECTOR], crossed),
        "on 0 and 1": Recipe(_add(1), [VECTOR], [VECTOR], everywhere[:16], source="sub.py:1"),
        "on 1 and 2": Recipe(_add(1), [VECTOR], [VECTOR], everywhere[8:24], source="sub.py:2"),
        "on 0 and 2": Recipe(_add(1), [VECTOR], [VECTOR], [0, 16], source="sub.py:3"),
        "wait on 0": Recipe(
            lambda arrays: [arrays[0]] if running.gate.wait(20) else [], [VECTOR], [VECTOR], [0], source="wait.py:1"
        ),
        "fail on all": Recipe(running.machine.recipes["fail"].function, [VECTOR], [VECTOR], everywhere),
    }


class Worker(Driver):
    """A process of the job: its columns of one array hold a buffer on each of its cores."""

    def __init__(self, address: str, process: int, processes: int, **more: Any) -> None:
        super().__init__(address, more.pop("job", "job"), process=process, processes=processes, **more)
        self.cores = [core.id for core in self.link.welcome.cores if core.process_index == process]
        self.executables: dict[str, int] = {}
        self._numbers = iter(range(1, 1000))

    def array(self, value: Callable[[int], float], cores: list[int] | None = None) -> list[int]:
        """Buffers on the worker's cores; ``value`` says what is in the one of a core."""
        columns = [next(self._numbers) for _ in cores or self.cores]
        for column, core in zip(columns, cores or self.cores, strict=True):
            self.put(column, np.full(2, value(core), "float32"), core)
        return columns

    def launch(self, name: str, argument: int | list[int]) -> tuple[int, int]:
        """Sequence number and column of the result."""
        if name not in self.executables:
            self.executables[name] = len(self.executables) + 1
            self.compile(self.executables[name], name)
        column = next(self._numbers)
        return self.execute(self.executables[name], [argument], column), column

    def values(self, column: int, count: int | None = None) -> list[float]:
        return [self.floats(column, 2, position)[0] for position in range(count or len(self.cores))]

    def notices(self, timeout: float = 5.0) -> list[str]:
        """What the worker was told, once it was told something."""
        return [
            reply.text for reply in self.read_until(lambda: [r for r in self.replies if isinstance(r, Notice)], timeout)
        ]


Attach = Callable[..., Worker]


@pytest.fixture
def attach(running: Running) -> Iterator[Attach]:
    workers: list[Worker] = []

    def open_worker(process: int, processes: int = 2, **more: Any) -> Worker:
        workers.append(Worker(running.unix, process, processes, **more))
        return workers[-1]

    yield open_worker
    running.gate.set()
    for worker in workers:
        worker.link.close()


def _failure(worker: Worker, sequence: int, timeout: float = 5.0) -> str:
    worker.read_until(lambda: worker.done >= sequence, timeout)
    return worker.failures[sequence].message if sequence in worker.failures else ""


def test_each_process_owns_the_chips_of_its_share_of_the_hosts(attach: Attach) -> None:
    owners = [core.process_index for core in attach(0, 2).link.welcome.cores]
    assert owners == [0] * 16 + [1] * 16
    assert [core.slice_index for core in attach(1, 2).link.welcome.cores] == [s for s in range(4) for _ in range(8)]


def test_a_program_on_all_cores_is_one_launch_and_gives_each_its_results(running: Running, attach: Attach) -> None:
    workers = [attach(process, 4) for process in range(4)]
    launches = [worker.launch("step", worker.array(float)) for worker in workers]
    for worker, (sequence, column) in zip(workers, launches, strict=True):
        assert _failure(worker, sequence) == ""
        assert worker.values(column) == [core + 1 for core in worker.cores]
    assert len(running.machine.seen) == 1
    assert running.machine.seen[0][0].array[:, 0].tolist() == list(range(CORES))


def test_a_program_is_compiled_once_for_all(running: Running, attach: Attach) -> None:
    for worker in [attach(process) for process in range(2)]:
        worker.launch("step", worker.array(float))
    assert running.machine.compiled == ["step"]


def test_a_program_of_one_core_is_compiled_once_for_the_cores_of_all(running: Running, attach: Attach) -> None:
    columns = []
    for worker, host in [(attach(0), 0), (attach(1), 2)]:
        columns.append((worker, worker.launch(f"add1 on {host}", worker.array(float)[:1])[1]))
    assert [worker.values(column, 1) for worker, column in columns] == [[1.0], [17.0]]
    assert running.machine.compiled == ["add1 on 0"]


def test_a_saved_program_meets_the_same_one_compiled_from_its_source(running: Running, attach: Attach) -> None:
    first, second = attach(0), attach(1)
    running.machine.recipes["saved"] = running.machine.recipes["step"]
    for worker, name in ((first, "step"), (second, "saved")):
        worker.compile(1, name, "the fingerprint of step")
        worker.executables["step"] = 1
    sequences = [worker.launch("step", worker.array(float))[0] for worker in (first, second)]
    assert [_failure(w, s) for w, s in zip((first, second), sequences, strict=True)] == ["", ""]


@pytest.mark.parametrize("name", ["step", "step in place", "crossed"])
def test_results_go_into_the_next_launch_as_they_are(running: Running, attach: Attach, name: str) -> None:
    workers = [attach(process) for process in range(2)]
    columns: list[int | list[int]] = [worker.array(float) for worker in workers]
    for _ in range(3):
        columns = [worker.launch(name, column)[1] for worker, column in zip(workers, columns, strict=True)]
    assert [worker.values(column) for worker, column in zip(workers, columns, strict=True)] == [
        [core + 3 for core in worker.cores] for worker in workers
    ]
    made, taken = running.machine.made, running.machine.seen
    assert [arguments[0].array is results[0].array for results, arguments in zip(made, taken[1:], strict=False)] == [
        True,
        True,
    ]


def test_replicated_arguments_of_all_processes_become_one_uniform_value(running: Running, attach: Attach) -> None:
    workers = [attach(process) for process in range(2)]
    for worker in workers:
        worker.launch("step", worker.array(lambda core: 7.0))
    for worker in workers:
        worker.wait(len(worker.cores) + 1)
    assert running.machine.seen[0][0].uniform


def test_hbm_is_counted_on_each_process_own_cores_and_free_at_the_end(running: Running, attach: Attach) -> None:
    workers = [attach(process) for process in range(2)]
    launches = [worker.launch("step in place", worker.array(float)) for worker in workers]
    for worker, (sequence, _) in zip(workers, launches, strict=True):
        worker.wait(sequence)
    assert running.chips.hbm.in_use.tolist() == [8] * CORES
    for worker, (_, column) in zip(workers, launches, strict=True):
        worker.link.send(Release([column]))
        worker.memory(worker.cores[0])
    assert running.hbm_in_use() == 0


def test_others_go_on_while_a_launch_waits(running: Running, attach: Attach) -> None:
    first, second = attach(0), attach(1)
    sequence, column = first.launch("step", first.array(float))
    own = second.array(float)
    for _ in range(3):
        assert _failure(second, second.launch("add1 on 2", own[:1])[0]) == ""
    assert first.done < sequence
    second.launch("step", own)
    assert first.values(column, 1) == [1.0]


def test_a_process_comes_to_its_operations_in_order(attach: Attach) -> None:
    first, second = attach(0), attach(1)
    own = first.array(float)
    _, made = first.launch("step", own)
    _, local = first.launch("add1 on 0", own[:1])
    later = [first.launch("step", made) for _ in range(3)]
    other = second.array(float)
    for _ in range(4):
        second.launch("step", other)
    assert first.values(local, 1) == [1.0]
    assert first.values(later[-1][1], 1) == [2.0]


def test_what_one_process_brings_wrong_fails_the_launch_for_all_but_not_the_next(attach: Attach) -> None:
    first, second = attach(0), attach(1)
    good, bad = first.array(float), second.array(float)
    one, other = first.launch("step", good)[0], second.launch("step", bad[:3])[0]
    assert "must lie on 16 cores, but is on 3" in _failure(first, one)
    assert _failure(first, one) == _failure(second, other)
    one, other = first.launch("step", good)[0], second.launch("step", bad)[0]
    assert _failure(first, one) == _failure(second, other) == ""


def test_a_program_that_fails_fails_for_all(attach: Attach) -> None:
    first, second = attach(0), attach(1)
    one, other = (worker.launch("fail on all", worker.array(float))[0] for worker in (first, second))
    assert _failure(first, one) == _failure(second, other) == "the program failed"


def test_cores_of_another_process_are_refused(attach: Attach) -> None:
    worker = attach(0)
    assert "core 16 belongs to worker 1" in _failure(worker, worker.put(900, ONES, 16))
    assert "has no part on the cores of this process" in _failure(
        worker, worker.launch("add1 on 2", worker.array(float))[0]
    )


def test_different_programs_are_named_with_their_lines_at_once_and_ever_after(running: Running, attach: Attach) -> None:
    workers = [attach(process, 4) for process in range(4)]
    arrays = [worker.array(float) for worker in workers]
    names = ["step", "step", "eval", "step"]
    launches = [w.launch(name, a)[0] for w, a, name in zip(workers[:3], arrays, names, strict=False)]
    failures = [_failure(worker, sequence) for worker, sequence in zip(workers, launches, strict=False)]
    text = failures[2].partition(";")[0]
    earlier = "workers 0 and 1|worker 0|worker 1"  # as many as had launched when worker 2 did
    assert re.fullmatch(
        rf"worker 2 launched eval \(train.py:57\) where ({earlier}) launched step \(train.py:41\)", text
    )
    for worker, failure in zip(workers, failures, strict=False):
        assert failure.startswith(text)
        assert any(text in notice for notice in worker.notices())
    assert any(text in notice for notice in workers[3].notices())
    assert text in _failure(workers[3], workers[3].launch("step", arrays[3])[0])
    assert text in status(running.directory)["troubles"]["job"]["text"]
    assert _failure(workers[3], workers[3].launch("add1 on 3", arrays[3][:1])[0]) == ""


def test_programs_of_the_same_name_that_differ_are_told_apart(running: Running, attach: Attach) -> None:
    first, second = attach(0), attach(1)
    running.machine.recipes["step again"] = running.machine.recipes["step"]
    one = first.launch("step", first.array(float))[0]
    running.machine.compile = _renamed(running.machine.compile)  # type: ignore[method-assign]
    second.launch("step again", second.array(float))
    assert "worker 0 launched step (train.py:41) of other shapes, constants or devices" in _failure(first, one)


def _renamed(compile_: Callable[..., Any]) -> Callable[..., Any]:
    def renamed(module: bytes, options: bytes) -> Any:
        program = compile_(module, options)
        program.name = "step"
        return program

    return renamed


def test_launches_that_cross_between_subsets_of_processes_are_a_mismatch(attach: Attach) -> None:
    workers = [attach(process, 4) for process in range(3)]
    arrays = [worker.array(float) for worker in workers]
    waiting = workers[0].launch("on 0 and 1", arrays[0])[0]
    workers[1].launch("on 1 and 2", arrays[1])
    time.sleep(0.05)
    assert workers[0].done < waiting
    workers[2].launch("on 0 and 2", arrays[2][:1])
    text = _failure(workers[0], waiting)
    for part in (
        "worker 0 launched on 0 and 1 (sub.py:1)",
        "worker 1 launched on 1 and 2",
        "worker 2 launched on 0 and 2",
    ):
        assert part in text


def test_a_launch_of_some_processes_does_not_need_the_others(attach: Attach) -> None:
    first, second, third = (attach(process, 4) for process in range(3))
    launches = [worker.launch("on 0 and 1", worker.array(float)) for worker in (first, second)]
    third.link.close()
    assert [_failure(w, sequence) for w, (sequence, _) in zip((first, second), launches, strict=True)] == ["", ""]


def test_a_process_that_ended_is_named_at_once(running: Running, attach: Attach) -> None:
    first, second = attach(0), attach(1)
    arrays = [worker.array(float) for worker in (first, second)]
    launches = [worker.launch("eval", array)[0] for worker, array in zip((first, second), arrays, strict=True)]
    first.wait(launches[0])
    waiting = first.launch("step", arrays[0])[0]
    second.link.close()
    text = _failure(first, waiting)
    assert re.match(rf"worker 1 \(pid {os.getpid()}\) ended without launching step \(train.py:41\); ", text)
    assert re.search(r"it last launched eval \(train.py:57\) \d s ago", text)
    assert text in status(running.directory)["troubles"]["job"]["text"]
    assert _failure(first, first.launch("eval", arrays[0])[0]) == text


def test_a_process_that_had_ended_before_is_named_at_once(attach: Attach, running: Running) -> None:
    first, second = attach(0), attach(1)
    second.link.close()
    running.wait_until(lambda: len(running.chips.occupancy.holders) == 1)
    array = first.array(float)
    assert _failure(first, first.launch("add1 on 0", array[:1])[0]) == ""
    assert "ended without launching step" in _failure(first, first.launch("step", array)[0])


def test_what_a_process_that_ended_had_in_its_queue_does_not_stand(attach: Attach, running: Running) -> None:
    first, second = attach(0), attach(1)
    arrays = [worker.array(float) for worker in (first, second)]
    second.launch("step", arrays[1])
    second.link.close()
    running.wait_until(lambda: len(running.chips.occupancy.holders) == 1)
    assert "worker 1" in _failure(first, first.launch("step", arrays[0])[0])


def test_a_late_process_is_told_of_everywhere_and_the_launch_given_up(running: Running, attach: Attach) -> None:
    first, second = (attach(process, notice_seconds=0.1, timeout_seconds=0.4) for process in range(2))
    arrays = [worker.array(float) for worker in (first, second)]
    second.wait(second.launch("add1 on 2", arrays[1][:1])[0])
    waiting = first.launch("step", arrays[0])[0]
    text = r"worker 1 has not launched step \(train.py:41\); it last launched add1 on 2 \(a.py:1\) \d s ago"
    for worker in (first, second):
        assert re.fullmatch(f"waiting: {text}", worker.notices()[0])
    assert first.done < waiting
    assert re.fullmatch(rf"{text}; given up after 0.4 s \(TPUCTL_LAUNCH_TIMEOUT\)", _failure(first, waiting))
    assert "worker 1" in _failure(second, second.launch("step", arrays[1])[0])
    assert "worker 1 has not launched step" in status(running.directory)["troubles"]["job"]["text"]


def test_a_process_that_never_attaches_is_told_of_and_given_up(attach: Attach) -> None:
    first = attach(0, notice_seconds=0.1, timeout_seconds=0.3)
    waiting = first.launch("step", first.array(float))[0]
    assert "worker 1 has not attached to the slice, and has not launched step (train.py:41)" in first.notices()[0]
    assert "has not attached" in _failure(first, waiting)


def test_a_process_that_attaches_late_is_waited_for(running: Running, attach: Attach) -> None:
    first = attach(0, notice_seconds=0.1)
    _, column = first.launch("step", first.array(float))
    first.notices()
    running.wait_until(lambda: "job" in status(running.directory)["troubles"])
    second = attach(1)
    second.launch("step", second.array(float))
    assert first.values(column, 1) == [1.0]
    assert status(running.directory)["troubles"] == {}


def test_compiling_is_told_of_but_not_given_up(running: Running, attach: Attach) -> None:
    first, second = (attach(process, notice_seconds=0.1, timeout_seconds=0.2) for process in range(2))
    arrays = [worker.array(float) for worker in (first, second)]
    first.compile(1, "step")
    first.executables["step"] = 1
    compile_ = running.machine.compile
    running.machine.compile = lambda *args: running.gate.wait(10) and compile_(*args)  # type: ignore[method-assign]
    second.link.send(Compile(77, 9, b"eval", b""))
    waiting = first.launch("step", arrays[0])[0]
    assert "worker 1 is compiling, and has not launched step" in first.notices()[0]
    time.sleep(0.5)
    assert first.done < waiting
    running.gate.set()
    second.executables["step"] = 5
    second.compile(5, "step")
    second.launch("step", arrays[1])
    assert _failure(first, waiting) == ""


def test_computing_is_no_lateness_and_the_waiting_one_is_not_blamed(running: Running, attach: Attach) -> None:
    first, second = (attach(process, notice_seconds=0.1, timeout_seconds=0.2) for process in range(2))
    arrays = [worker.array(float) for worker in (first, second)]
    first.launch("wait on 0", arrays[0][:1])
    running.wait_until(lambda: bool(running.machine.seen))
    waiting = second.launch("step", arrays[1])[0]
    first.launch("step", arrays[0])
    time.sleep(0.5)
    assert second.done < waiting
    running.gate.set()
    assert _failure(second, waiting) == ""


def test_after_a_trouble_the_slice_is_free_for_the_next_job(running: Running, attach: Attach) -> None:
    first, second = attach(0), attach(1)
    first.launch("step", first.array(float))
    second.launch("eval", second.array(float))
    first.notices()
    for worker in (first, second):
        worker.link.close()
    running.wait_until(lambda: not running.chips.occupancy.holders)
    workers = [attach(process, job="next") for process in range(2)]
    assert running.hbm_in_use() == 0
    launches = [worker.launch("step", worker.array(float))[0] for worker in workers]
    assert [_failure(w, sequence) for w, sequence in zip(workers, launches, strict=True)] == ["", ""]
    assert set(status(running.directory)["troubles"]) == {"job"}


def test_the_same_job_may_start_again_after_a_trouble(running: Running, attach: Attach) -> None:
    first, second = attach(0), attach(1)
    first.launch("step", first.array(float))
    second.link.close()
    first.notices()
    first.link.close()
    running.wait_until(lambda: not running.chips.occupancy.holders)
    workers = [attach(process) for process in (1, 0)]
    launches = [worker.launch("step", worker.array(float))[0] for worker in workers]
    assert [_failure(w, sequence) for w, sequence in zip(workers, launches, strict=True)] == ["", ""]
    assert status(running.directory)["troubles"] == {}


def test_the_second_program_of_a_command_does_not_meet_the_first_of_others(running: Running, attach: Attach) -> None:
    """Worker 0 goes on to the next script of its command while worker 1 is still in the one before."""
    first, second = attach(0), attach(1)
    first.link.close()
    running.wait_until(lambda: len(running.chips.occupancy.holders) == 1)
    again = attach(0)
    waiting = again.launch("step", again.array(float))[0]
    second.link.close()
    running.wait_until(lambda: len(running.chips.occupancy.holders) == 1)
    assert again.done < waiting
    second_again = attach(1)
    second_again.launch("step", second_again.array(float))
    assert _failure(again, waiting) == ""


def test_a_process_that_has_finished_early_does_not_disturb_what_needs_it_not(attach: Attach) -> None:
    first, second = attach(0), attach(1)
    arrays = [worker.array(float) for worker in (first, second)]
    launches = [w.launch("step", a) for w, a in zip((first, second), arrays, strict=True)]
    first.wait(launches[0][0])
    first.link.close()
    assert second.values(launches[1][1], 2) == [17.0, 18.0]
    assert _failure(second, second.launch("add1 on 2", arrays[1][:1])[0]) == ""


@pytest.mark.parametrize(
    ("process", "processes", "refusal"),
    [
        (4, 4, "TPUCTL_PROCESS=4/4 is no process of a job"),
        (0, 3, "the 4 hosts of this v3-8 slice can't be divided among 3 processes; use 1, 2 or 4"),
        (0, 0, "TPUCTL_PROCESS=0/0 is no process"),
    ],
)
def test_an_impossible_process_is_refused(attach: Attach, process: int, processes: int, refusal: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(refusal)):
        attach(process, processes)


def test_the_same_index_or_another_number_of_processes_is_refused(attach: Attach) -> None:
    attach(0, 2)
    with pytest.raises(
        FailedPrecondition, match=rf"TPUCTL_PROCESS=0/2 is taken: process {os.getpid()} of the same job"
    ):
        attach(0, 2)
    with pytest.raises(FailedPrecondition, match=rf"1/4 does not go with process {os.getpid()} of the same job, which"):
        attach(1, 4)


def test_a_second_job_is_refused(attach: Attach) -> None:
    attach(0, 2)
    with pytest.raises(FailedPrecondition, match=rf"in use: process {os.getpid()}, job job holds them"):
        attach(1, 2, job="another")


def test_status_tells_of_all_processes(running: Running, attach: Attach) -> None:
    for process in (1, 0):
        attach(process)
    told = status(running.directory)
    assert [(client["process"], client["processes"]) for client in told["clients"]] == [(0, 2), (1, 2)]
    assert told["client"] == {"pid": os.getpid(), "job": "job"}
    assert told["troubles"] == {}


def test_a_put_may_wait_in_the_queue_behind_a_shared_launch(attach: Attach) -> None:
    first, second = attach(0), attach(1)
    _, column = first.launch("step", first.array(float))
    data = ONES.tobytes()
    first.submit(lambda sequence: Put(sequence, 950 << 20, 0, "device", "float32", [2], data))
    second.launch("step", second.array(float))
    assert first.floats(950, 2) == [1.0, 1.0]
    assert first.values(column, 1) == [1.0]
