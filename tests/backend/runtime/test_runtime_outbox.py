"""Reports of finished operations: gathered, in order, from whatever thread."""

from __future__ import annotations

import socket
import threading

from backend.errors import InvalidArgument
from backend.link.framing import reply_reader
from backend.link.messages import Done, Failure
from backend.runtime.outbox import Outbox


def read_until(sock: socket.socket, through: int) -> list[Done]:
    reader, reports = reply_reader(sock), []
    while not reports or reports[-1].through < through:
        reports += [reply for reply in reader.read() if isinstance(reply, Done)]
    return reports


def test_reports_that_follow_each_other_closely_travel_together() -> None:
    left, right = socket.socketpair()
    with left, right:
        outbox = Outbox(left)
        outbox.done(1, None)
        outbox.done(2, InvalidArgument("no"))
        outbox.flush()
        reports = read_until(right, 2)
        assert [failure for report in reports for failure in report.failures] == [Failure(2, 3, "no")]


def test_two_threads_may_report_and_flush_at_once() -> None:
    left, right = socket.socketpair()
    with left, right:
        outbox, ended = Outbox(left), threading.Event()

        def flush() -> None:
            while not ended.is_set():
                outbox.flush()

        flusher = threading.Thread(target=flush)
        reports: list[Done] = []
        reader = threading.Thread(target=lambda: reports.extend(read_until(right, 20_000)))
        flusher.start()
        reader.start()
        for sequence in range(1, 20_001):
            outbox.done(sequence, None)
        ended.set()
        flusher.join()
        outbox.flush()
        reader.join()
        assert [report.through for report in reports] == sorted(report.through for report in reports)


def test_a_client_that_is_gone_is_passed_over() -> None:
    left, right = socket.socketpair()
    right.close()
    with left:
        outbox = Outbox(left)
        outbox.done(1, None)
        outbox.flush()
        outbox.send(Done(2, []))
