"""What the driver says to its slice, in which order, and what it remembers; with a link that a test holds up."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backend.driver import lasting
from backend.driver.session import PIECE_BYTES, Session
from backend.link.messages import VERSION, Copy, Done, Failure, Message, Put, Release, Reply, Stage, Welcome


class Link:
    """Stands in for a connection: keeps what is sent, and replies what a test has put in ``replies``."""

    arena = None

    def __init__(self) -> None:
        self.welcome = Welcome(VERSION, "test", "v3-8", "TPU v3", 16 << 30, [])
        self.sent: list[Message] = []
        self.replies: list[Reply] = []
        self.stage_arrives = threading.Event()
        self.stage_may_go = threading.Event()
        self.stage_may_go.set()
        self.is_full = False
        """The slice takes a Stage only after somebody has read."""

    def send(self, *messages: Message) -> None:
        if any(isinstance(message, Stage) for message in messages):
            self.stage_arrives.set()
            assert self.stage_may_go.wait(10)
        self.sent.extend(messages)

    def receive(self, timeout: float) -> list[Reply]:
        if self.is_full:
            self.stage_may_go.set()
        replies, self.replies = self.replies, []
        return replies

    def shut(self) -> None:
        return

    def close(self) -> None:
        return


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def session(link: Link) -> Iterator[Session]:
    made = Session(link)  # type: ignore[arg-type]
    yield made
    made.close()


def copy(sequence: int) -> Copy:
    return Copy(sequence, 1, 2, 0, "device")


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_what_was_released_is_free_before_any_later_operation(link: Link, session: Session) -> None:
    data = ctypes.create_string_buffer(PIECE_BYTES + 1)
    link.stage_may_go.clear()
    session.release(7)
    uploading = in_thread(
        lambda: session.upload(
            lambda sequence, rest: Put(sequence, 8, 0, "device", "uint8", [len(data)], rest),
            8,
            ctypes.addressof(data),
            len(data),
        )
    )
    assert link.stage_arrives.wait(5)
    submitting = in_thread(lambda: session.submit(copy))
    submitting.join(0.2)
    link.stage_may_go.set()
    for thread in (uploading, submitting):
        thread.join()
    kinds = [type(message) for message in link.sent]
    assert kinds.index(Release) < kinds.index(Copy)


def test_somebody_reads_while_much_is_sent(link: Link, session: Session) -> None:
    link.stage_may_go.clear()
    link.is_full = True
    data = ctypes.create_string_buffer(PIECE_BYTES + 1)
    session.upload(
        lambda sequence, rest: Put(sequence, 8, 0, "device", "uint8", [len(data)], rest),
        8,
        ctypes.addressof(data),
        len(data),
    )
    assert [type(message) for message in link.sent] == [Stage, Put]


def test_no_release_is_lost_while_others_release_and_submit(link: Link, session: Session) -> None:
    releasing = [in_thread(lambda: [session.release(number) for number in range(20_000)]) for _ in range(3)]
    while any(thread.is_alive() for thread in releasing):
        link.replies = [Done(session.submit(copy), [])]
    session.submit(copy)
    assert sum(len(message.columns) for message in link.sent if isinstance(message, Release)) == 60_000


def test_old_failures_are_forgotten_and_the_latest_known(link: Link, session: Session) -> None:
    sequence = session.submit(copy)
    link.replies = [Done(sequence, [Failure(number, 3, f"no {number}") for number in range(1, 20_001)])]
    assert session.wait(sequence, 5)
    assert session.error(1) is None
    assert str(session.error(20_000)) == "no 20000"
    assert str(session.error(10_001)) == "no 10001"


def test_kept_text_is_the_same_for_equal_strings_and_goes_with_its_keeper() -> None:
    kept = lasting.Kept()
    address, size = kept.text("an executable's name")
    assert kept.text("an executable's name") == (address, size)
    assert ctypes.string_at(address, size) == b"an executable's name"
    assert kept.text("an executable's name") != lasting.text("an executable's name")
