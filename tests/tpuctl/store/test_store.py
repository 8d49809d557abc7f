"""The store keeps what was committed, whole, and says clearly when it cannot."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpuctl.api.errors import FailedPrecondition, ResourceExhausted
from tpuctl.api.nodes import NodeState
from tpuctl.store import NodeRow, OperationRow, Store
from tpuctl.store.tables import ADDED, INDEXES, RENAMED


def node(name: str, port: int = 8470) -> NodeRow:
    return NodeRow(
        uid=f"uid-{name}",
        project="p",
        zone="z",
        name=name,
        accelerator_type="v3-8",
        state=NodeState.CREATING,
        host="127.84.0.1",
        port=port,
        create_time=time.time(),
        spec={"labels": {"a": "b"}},
    )


def operation(name: str) -> OperationRow:
    return OperationRow(name=name, project="p", zone="z", target="t", verb="create", create_time=1.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "tpuctl.db")
    yield opened
    opened.close()


def test_rows_come_back_as_they_were(store: Store) -> None:
    row = node("a")
    with store.change() as change:
        change.insert(row)
    with store.read() as reader:
        assert reader.nodes() == [row]
        assert reader.node(project="p", name="a") == row
        assert reader.nodes(state=frozenset({NodeState.READY})) == []


def test_a_change_that_raises_leaves_nothing(store: Store) -> None:
    def fail_half_way() -> None:
        with store.change() as change:
            change.insert(operation("o"))
            change.insert(node("a"))
            change.event("a", "-> CREATING")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    with store.read() as reader:
        assert (reader.nodes(), reader.operations(), reader.events()) == ([], [], [])
    assert store.version == 0


def test_a_replaced_row_is_returned_and_stored(store: Store) -> None:
    with store.change() as change:
        change.insert(node("a"))
        ready = change.replace(node("a"), state=NodeState.READY)
    with store.read() as reader:
        stored = reader.node(name="a")
    assert ready.state is NodeState.READY
    assert stored is not None
    assert stored.state is NodeState.READY


def test_readers_do_not_wait_for_a_writer(store: Store) -> None:
    with store.change() as change:
        change.insert(node("a"))
        with store.read() as reader:
            assert reader.nodes() == []


def test_many_threads_can_change_it(store: Store) -> None:
    def add(first: int) -> None:
        for number in range(first, first + 20):
            with store.change() as change:
                change.insert(operation(f"o{number}"))

    threads = [threading.Thread(target=add, args=(100 * index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as reader:
        assert len(reader.operations()) == 80


def test_file_is_private(tmp_path: Path, store: Store) -> None:
    with store.change() as change:
        change.insert(node("a"))
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "tpuctl.db": 0o600,
        "tpuctl.db-wal": 0o600,
        "tpuctl.db-shm": 0o600,
    }


def test_full_disk_is_told_and_leaves_nothing_half_written(store: Store) -> None:
    with store.change() as change:
        change.insert(node("a"))
    with store._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    def fill() -> None:
        with store.change() as change:
            for number in range(1000):
                change.insert(operation(f"o{number}"))
                change.event("o", "x" * 1000)

    with pytest.raises(ResourceExhausted, match=r"disk of .* is full.*nothing was changed"):
        fill()
    with store.read() as reader:
        assert reader.operations() == []
        assert [row.name for row in reader.nodes()] == ["a"]


def test_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tpuctl.db"
    path.write_bytes(b"this is no database " * 100)
    with pytest.raises(FailedPrecondition, match="is damaged"):
        Store(path)


def test_file_of_a_newer_tpuctl_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tpuctl.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(FailedPrecondition, match="newer tpuctl"):
        Store(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for root")
def test_unwritable_folder_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FailedPrecondition, match="cannot use"):
        Store(tmp_path / "tpuctl.db")


def test_what_was_committed_survives_kill_minus_9(tmp_path: Path) -> None:
    code = (
        "import sys, itertools\n"
        "from pathlib import Path\n"
        "from tpuctl.store import OperationRow, Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "for n in itertools.count():\n"
        "    with store.change() as change:\n"
        "        change.insert(OperationRow(name=str(n), project='p', zone='z', target='t', verb='v', create_time=n))\n"
        "        change.event(str(n), 'made')\n"
        "    print(n, flush=True)\n"
    )
    path = tmp_path / "tpuctl.db"
    writer = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(50)][-1]
    writer.send_signal(signal.SIGKILL)
    rest = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait()
    told = int(rest[-1]) if rest else told
    store = Store(path)
    with store.read() as reader:
        names = {int(row.name) for row in reader.operations()}
        events = {int(event.resource) for event in reader.events()}
    store.close()
    assert names == events
    assert names >= set(range(told + 1))


def test_what_an_earlier_version_wrote_is_kept_and_gets_the_new_columns(tmp_path: Path) -> None:
    path = tmp_path / "tpuctl.db"
    before = Store(path)
    with before.change() as change:
        change.insert(node("old"))
    before.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for index in INDEXES:
            connection.execute(f"DROP INDEX {index.name}")
        for column in itertools.chain(*ADDED.values()):
            connection.execute(f"ALTER TABLE {column.table.name} DROP COLUMN {column.name}")
        for earlier, column in itertools.chain(*RENAMED.values()):
            connection.execute(f"ALTER TABLE {column.table.name} RENAME COLUMN {column.name} TO {earlier}")
        connection.execute("DROP TABLE pods")
        connection.execute("PRAGMA user_version=1")
        connection.commit()
    after = Store(path)
    with after.change() as change:
        change.insert(dataclasses.replace(node("new", 8471), topology="4x4", num_slices=2))
    with after.read() as reader:
        assert [(row.name, row.topology, row.num_slices) for row in reader.nodes()] == [
            ("old", None, 1),
            ("new", "4x4", 2),
        ]
        assert reader.jobs() == reader.quotas(location="*") == reader.pods() == []
    after.close()
