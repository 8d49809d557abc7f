"""Where does a message end? Frames of a 4-byte little-endian length and a msgpack message."""

from __future__ import annotations

import socket
import struct
from typing import Generic, TypeVar

import msgspec

from backend.link.messages import Message, Reply, Request

LENGTH = struct.Struct("<I")
GREETING_LIMIT = 64 << 10
FRAME_LIMIT = 1 << 30
_READ_BYTES = 256 << 10

_encoder = msgspec.msgpack.Encoder()
_T = TypeVar("_T")


class MalformedFrame(Exception):
    """The peer sent something that is no message; its connection ends."""


class EndOfStream(Exception):
    """The peer closed the connection, or died."""


def frame(message: Message) -> bytes:
    """``message`` as it goes over the wire."""
    payload = _encoder.encode(message)
    return LENGTH.pack(len(payload)) + payload


class FrameReader(Generic[_T]):
    """Messages of one type union from a stream socket. Not to be used by two threads at once.

    ``limit`` bounds the bytes of one frame; raise it once the peer is known.
    """

    def __init__(self, sock: socket.socket, kind: object, limit: int = GREETING_LIMIT) -> None:
        self.limit = limit
        self._sock = sock
        self._decoder: msgspec.msgpack.Decoder[_T] = msgspec.msgpack.Decoder(kind)
        self._pending = b""
        self._buffer = memoryview(bytearray(_READ_BYTES))  # recv takes fresh pages from the system, and gives them back

    def read(self, flags: int = 0) -> list[_T]:
        """Wait for bytes and return the messages that they complete, perhaps none.

        ``flags`` go to recv. Raises MalformedFrame, EndOfStream, and OSError as recv does.
        """
        return self.feed(self._receive(flags))

    def feed(self, data: bytes) -> list[_T]:
        """The messages that ``data``, the stream's next bytes, completes. Raises MalformedFrame, EndOfStream."""
        if self._pending:
            data = self._pending + data
        messages = []
        start, end = 0, len(data)
        while end - start >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, start)
            if size > self.limit:
                raise MalformedFrame(f"a frame of {size} bytes is over the limit of {self.limit}")
            body = start + LENGTH.size
            if end - body < size:
                if size > _READ_BYTES:
                    messages.append(self._decode(self._receive_rest(memoryview(data)[body:], size)))
                    start = end
                break
            messages.append(self._decode(memoryview(data)[body : body + size]))
            start = body + size
        self._pending = data[start:]
        return messages

    def _receive(self, flags: int) -> bytes:
        count = self._sock.recv_into(self._buffer, 0, flags)
        if not count:
            raise EndOfStream
        return bytes(self._buffer[:count])

    def _receive_rest(self, begun: memoryview, size: int) -> bytearray:
        """A large frame's body, received in place."""
        body = bytearray(size)
        body[: len(begun)] = begun
        rest = memoryview(body)[len(begun) :]
        while rest:
            count = self._sock.recv_into(rest)
            if not count:
                raise EndOfStream
            rest = rest[count:]
        return body

    def _decode(self, body: bytearray | memoryview) -> _T:
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise MalformedFrame(str(error)) from error


def request_reader(sock: socket.socket) -> FrameReader[Request]:
    return FrameReader(sock, Request)


def reply_reader(sock: socket.socket) -> FrameReader[Reply]:
    return FrameReader(sock, Reply, limit=FRAME_LIMIT)
