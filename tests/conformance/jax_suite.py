"""JAX's own tests on a v3-8 slice, against the same tests on JAX's CPU backend.

    python tests/conformance/jax_suite.py /path/to/jax [FILE ...]

The checkout should be of the version that is installed (``git checkout jax-v0.10.2``). Outcomes are kept in
``--results`` and a run that was interrupted goes on where it was; ``--again`` forgets what the slice did,
``--retry`` what did not pass there; ``--only`` picks a side.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

FILES = (
    "lax_test lax_numpy_test lax_numpy_operators_test lax_numpy_indexing_test lax_numpy_reducers_test "
    "lax_autodiff_test lax_vmap_test api_test dtypes_test pmap_test shard_map_test array_test debugging_primitives_test"
).split()
SILENCE = 300.0
"""Seconds without a test ending after which a run is taken to hang."""


MISSED = ("failed", "crashed")


@dataclass(frozen=True)
class Outcome:
    """What became of a test: passed, skipped, failed or crashed, and why."""

    result: str
    reason: str
    seconds: float


class Side:
    """One of the two runs of a test file, and the file of its outcomes."""

    def __init__(self, name: str, environment: dict[str, str], results: Path) -> None:
        self.name = name
        self._environment = environment
        self._results = results / name
        self._results.mkdir(parents=True, exist_ok=True)

    def forget(self, file: str, keep_passed: bool) -> None:
        """Drop what is known of a test file, or what is known of its tests that did not pass."""
        kept = [line for line in self._lines(file) if keep_passed and line["outcome"] in ("passed", "skipped")]
        self._record(file).write_text("".join(f"{json.dumps(line)}\n" for line in kept))

    def outcomes(self, file: str) -> dict[str, Outcome]:
        """What is known so far, by test."""
        known: dict[str, Outcome] = {}
        for line in self._lines(file):
            if line["outcome"] == "started":
                known[line["test"]] = Outcome("crashed", "the process ended or hung", 0.0)
            elif "test" in line:
                known[line["test"]] = Outcome(line["outcome"], line["reason"], line["seconds"])
        return known

    def complete(self, file: str) -> bool:
        """Whether every test of the file has an outcome."""
        return any(line["outcome"] == "complete" for line in self._lines(file))

    def run(self, checkout: Path, file: str, cases: int, select: str) -> None:
        """Run what has no outcome yet, starting over after each end of the process."""
        while not self.complete(file):
            before = len(self.outcomes(file))
            self._run_once(checkout, file, cases, select)
            if len(self.outcomes(file)) == before and not self.complete(file):
                raise SystemExit(f"{file} on {self.name}: no test can be run; see {self._results / file}.log")

    def _run_once(self, checkout: Path, file: str, cases: int, select: str) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".skip") as skip, (self._results / f"{file}.log").open("a") as log:
            skip.write("\n".join(self.outcomes(file)))
            skip.flush()
            here = Path(__file__).parent
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    "-q",
                    "-p",
                    "recorder",
                    "-p",
                    "no:cacheprovider",
                    "--timeout=0",
                    "-k",
                    select,
                    f"tests/{file}.py",
                ],
                cwd=checkout,
                env={
                    **os.environ,
                    **self._environment,
                    "PYTHONPATH": os.pathsep.join([str(here), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
                    "JAX_NUM_GENERATED_CASES": str(cases),
                    "CONFORMANCE_RECORD": str(self._record(file)),
                    "CONFORMANCE_SKIP": skip.name,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                self._wait(process, self._record(file))
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _wait(self, process: subprocess.Popen[bytes], record: Path) -> None:
        started = time.time()
        while process.poll() is None:
            time.sleep(0.5)
            last = record.stat().st_mtime if record.exists() else started
            if time.time() - max(last, started) > SILENCE:
                return

    def _lines(self, file: str) -> Iterator[dict[str, str]]:
        record = self._record(file)
        if record.exists():
            for line in record.read_text().splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    yield json.loads(line)

    def _record(self, file: str) -> Path:
        return self._results / f"{file}.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    parser.add_argument("--results", type=Path, default=Path("conformance-results"))
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--only", choices=("cpu", "tpu", "none"))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--retry", action="store_true")
    parser.add_argument("-k", dest="select", default="")
    options = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the slice is deleted then, too
    if not (options.checkout / "tests").is_dir():
        raise SystemExit(f"{options.checkout} is no checkout of JAX: it has no folder tests")
    results = options.results.resolve()
    cpu = Side("cpu", {"JAX_PLATFORMS": "cpu"}, results)
    with slice_environment() if options.only in (None, "tpu") else contextlib.nullcontext({}) as attached:
        tpu = Side("tpu", {**attached, "JAX_PLATFORMS": "tpu,cpu"}, results)
        for file in options.files:
            if (options.again or options.retry) and options.only != "cpu":
                tpu.forget(file, keep_passed=options.retry)
            for side in (cpu, tpu):
                if options.only in (None, side.name):
                    side.run(options.checkout, file, options.cases, options.select)
    report(cpu, tpu, options.files, results)


@contextlib.contextmanager
def slice_environment() -> Iterator[dict[str, str]]:
    """The environment of a v3-8 slice that lives as long as the context."""
    from tpuctl.api.nodes import Node
    from tpuctl.client import connect

    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"TPUCTL_HOME": home, "TPUCTL_PORT": "0"}
        try:
            with connect() as client:
                node = Node(accelerator_type="v3-8", runtime_version="tpu-ubuntu2204-base")
                client.wait(client.create_node("conformance", node))
                yield dict(client.get_slice("conformance").environment)
        finally:
            for command in (["delete", "slice", "conformance", "--yes"], ["down"]):
                subprocess.run([sys.executable, "-m", "tpuctl", *command], check=False, capture_output=True)


def report(cpu: Side, tpu: Side, files: list[str], results: Path) -> None:
    """Print the table and write what passes on the CPU backend alone to a file."""
    table = Table(title="JAX's tests: of those that pass on CPU, how many pass on a v3-8")
    for column in ("file", "pass on CPU", "pass here", "skipped here", "fail here", "share", "CPU time", "time here"):
        table.add_column(column, justify="left" if column == "file" else "right")
    total: Counter[str] = Counter()
    misses = []
    for file in files:
        theirs, ours = cpu.outcomes(file), tpu.outcomes(file)
        passing = [test for test, outcome in theirs.items() if outcome.result == "passed"]
        count = Counter(ours[test].result if test in ours else "not run" for test in passing)
        misses += [(test, ours[test]) for test in passing if test in ours and ours[test].result in MISSED]
        times = [sum(outcome.seconds for outcome in side.values()) for side in (theirs, ours)]
        table.add_row(file, *_cells(len(passing), count), *(f"{time:.0f} s" for time in times))
        total.update(count)
    table.add_section()
    table.add_row("all", *_cells(total.total(), total))
    rows = [{"test": test, "result": outcome.result, "reason": outcome.reason} for test, outcome in misses]
    (results / "misses.json").write_text(json.dumps(rows, indent=1))
    Console().print(table)


def _cells(passing: int, count: Counter[str]) -> list[str]:
    failed = count["failed"] + count["crashed"]
    ran = count["passed"] + failed
    share = f"{count['passed'] / ran:.2%}" if ran else "-"
    return [str(passing), str(count["passed"]), str(count["skipped"]), str(failed), share]


if __name__ == "__main__":
    main()
