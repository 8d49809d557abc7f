"""The conversation of a running program with its script's callbacks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from backend.errors import Internal, Unavailable
from backend.link.framing import MalformedFrame
from backend.link.messages import HostAnswer, HostBarrier, HostError, HostReached, HostReceive, HostSend, Message
from backend.runtime.host_calls import HostCalls, launch_calls


class Host:
    """Answers what a launch asks, at once, by ``replies``."""

    def __init__(self, **replies: object) -> None:
        self.said: list[Message] = []
        self.calls = HostCalls(self.hear)
        self.replies = replies

    def hear(self, message: Message) -> None:
        self.said.append(message)
        match message:
            case HostReceive(sequence, channel, core) if "answer" in self.replies:
                data = np.float32(core).tobytes()
                self.calls.hear(HostAnswer(sequence, channel, core, 4, data[:1]))
                self.calls.hear(HostAnswer(sequence, channel, core, 4, data[1:]))
            case HostBarrier(sequence):
                self.calls.hear(HostReached(sequence))
            case HostReceive(sequence) if "error" in self.replies:
                self.calls.hear(HostError(sequence, Internal.code, "the callback failed"))
            case HostReceive():
                threading.Timer(0.05, self.calls.hang_up, ["the script has ended"]).start()


def test_values_go_out_and_answers_come_back_in_parts() -> None:
    host = Host(answer=True)
    launch = host.calls.launch(7)
    launch.send(2, 1, np.arange(3, dtype="int8"))
    answers = np.zeros(2, "float32")
    launch.receive(3, [(0, answers[0:1].reshape(())), (1, answers[1:2].reshape(()))])
    launch.settle()
    assert answers.tolist() == [0, 1]
    assert host.said == [HostSend(7, 2, 1, 3, b"\0\1\2"), HostReceive(7, 3, 0), HostReceive(7, 3, 1)]


def test_a_launch_waits_for_callbacks_that_answer_nothing() -> None:
    host = Host()
    launch = host.calls.launch(7)
    launch.send(2, 0, np.zeros(0, "float32"))
    launch.settle()
    assert host.said == [HostSend(7, 2, 0, 0, b""), HostBarrier(7)]


@pytest.mark.parametrize(("replies", "error"), [({"error": True}, Internal), ({}, Unavailable)])
def test_a_callback_that_fails_or_a_script_that_ends_ends_the_wait(replies, error) -> None:
    launch = Host(**replies).calls.launch(7)
    with pytest.raises(error):
        launch.receive(3, [(0, np.zeros((), "float32"))])
    with pytest.raises(error):
        launch.send(2, 0, np.zeros(1))


def test_answers_that_nobody_asked_for_are_malformed_and_late_ones_are_passed_over() -> None:
    calls = Host().calls
    calls.launch(7)
    calls.hear(HostAnswer(6, 3, 0, 4, b"late"))
    with pytest.raises(MalformedFrame):
        calls.hear(HostAnswer(7, 3, 0, 4, b"what"))


def test_each_core_of_a_shared_program_reaches_the_client_that_owns_it() -> None:
    hosts = [Host(answer=True), Host(answer=True)]
    launch = launch_calls([(hosts[0].calls, 7, [0, 3]), (hosts[1].calls, 4, [1, 2])])
    launch.send(2, 2, np.arange(2, dtype="int8"))
    answers = np.zeros(4, "float32")
    launch.receive(3, [(core, answers[core : core + 1].reshape(())) for core in range(4)])
    launch.settle()
    assert answers.tolist() == [0, 0, 1, 1]
    assert hosts[0].said == [HostReceive(7, 3, 0), HostReceive(7, 3, 1)]
    assert hosts[1].said == [HostSend(4, 2, 1, 2, b"\0\1"), HostReceive(4, 3, 0), HostReceive(4, 3, 1)]


def test_a_client_that_ends_ends_a_shared_program_and_the_others_settle() -> None:
    hosts = [Host(answer=True), Host()]
    launch = launch_calls([(hosts[0].calls, 7, [0]), (hosts[1].calls, 4, [1])])
    launch.send(2, 0, np.zeros(1, "int8"))
    with pytest.raises(Unavailable, match="the script has ended"):
        launch.receive(3, [(1, np.zeros((), "float32"))])
    launch.settle()
    assert hosts[0].said[-1] == HostBarrier(7)
