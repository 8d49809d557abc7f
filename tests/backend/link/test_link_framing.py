"""Frames and messages: what one side sends the other gets, and garbage ends a connection, nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.link import messages
from backend.link.framing import LENGTH, EndOfStream, FrameReader, MalformedFrame, frame, request_reader
from backend.link.messages import Execute, Put, Region, Release, Request, Status


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def feed(data: bytes, piece: int) -> list[Request]:
    with contextlib.closing(socket.socket()) as unused:
        reader = request_reader(unused)
        return [message for start in range(0, len(data), piece) for message in reader.feed(data[start : start + piece])]


numbers = st.integers(0, 2**62)
executions = st.builds(Execute, numbers, numbers, st.lists(numbers), numbers, st.lists(numbers), st.lists(numbers))
puts = st.builds(
    Put, numbers, numbers, numbers, st.sampled_from(["device", "pinned_host"]), st.text(), st.lists(numbers),
    st.one_of(st.binary(), st.builds(Region, numbers, numbers)),
)  # fmt: skip
requests = st.one_of(executions, puts, st.builds(Release, st.lists(numbers)), st.builds(Status, numbers))


@given(st.lists(requests, max_size=5), st.integers(1, 50))
def test_messages_survive_any_cutting_of_the_stream(sent: list[Request], piece: int) -> None:
    assert feed(b"".join(map(frame, sent)), piece) == sent


@given(st.binary(max_size=300), st.integers(1, 20))
@settings(max_examples=300)
def test_garbage_is_malformed_or_incomplete_but_never_another_error(data: bytes, piece: int) -> None:
    with contextlib.suppress(MalformedFrame):
        feed(data, piece)


@given(st.binary(min_size=1, max_size=80))
def test_a_frame_with_a_random_body_never_raises_anything_but_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedFrame):
        feed(LENGTH.pack(len(body)) + body, 1000)


@given(requests, st.data())
def test_a_message_with_one_byte_changed_is_malformed_or_another_message(message: Request, data: st.DataObject) -> None:
    original = bytearray(frame(message))
    position = data.draw(st.integers(LENGTH.size, len(original) - 1))
    original[position] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedFrame):
        feed(bytes(original), 1000)


def test_a_length_over_the_limit_is_refused_before_its_body_is_read() -> None:
    with pytest.raises(MalformedFrame, match="over the limit"):
        feed(LENGTH.pack(1 << 31), 4)


def test_a_reply_is_no_request() -> None:
    with pytest.raises(MalformedFrame):
        feed(frame(messages.Done(1, [])), 100)


def test_a_large_frame_arrives_whole(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    message = messages.Compile(1, 2, bytes(range(256)) * 20_000, b"")
    reader: FrameReader[Request] = request_reader(right)
    reader.limit = 1 << 30
    sender = threading.Thread(target=left.sendall, args=(frame(Status(7)) + frame(message),))
    sender.start()
    received: list[Request] = []
    while len(received) < 2:
        received += reader.read()
    sender.join()
    assert received == [Status(7), message]


def test_a_closed_connection_is_the_end_of_the_stream(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    left.close()
    with pytest.raises(EndOfStream):
        request_reader(right).read()
