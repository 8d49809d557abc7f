"""The gRPC port, whose server is made once somebody calls: until then it costs no time and no memory."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol

GRACE_SECONDS = 0.5
CHUNK_BYTES = 1 << 16
log = logging.getLogger("tpuctl.server")


class Stopped(Protocol):
    def wait(self) -> object: ...


class Server(Protocol):
    def stop(self, grace: float | None) -> Stopped: ...


@asynccontextmanager
async def listening(listener: socket.socket, start: Callable[[], Server]) -> AsyncIterator[None]:
    """Until the block ends, whoever connects to ``listener`` reaches the server that ``start`` makes at its address."""
    loop = asyncio.get_running_loop()
    wake, ending = asyncio.Event(), asyncio.Event()
    loop.add_reader(listener, wake.set)
    serving = loop.create_task(_serve(listener, start, wake, ending))
    try:
        yield
    finally:
        ending.set()
        wake.set()
        await serving


async def _serve(
    listener: socket.socket, start: Callable[[], Server], wake: asyncio.Event, ending: asyncio.Event
) -> None:
    await wake.wait()
    asyncio.get_running_loop().remove_reader(listener)
    with listener:
        if ending.is_set():
            return
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # not before: till then the port is ours alone
        address = listener.getsockname()
        try:
            server = await asyncio.to_thread(start)
        except Exception:
            log.exception("the gRPC front cannot be started")
            return
        early = list(_accepted(listener))
    relays = [asyncio.create_task(_relay(connection, address)) for connection in early]
    await ending.wait()
    await asyncio.to_thread(lambda: server.stop(GRACE_SECONDS).wait())
    await asyncio.gather(*relays)


def _accepted(listener: socket.socket) -> Iterator[socket.socket]:
    """Those who have connected before the server was there."""
    listener.setblocking(False)
    with suppress(OSError):
        while True:
            yield listener.accept()[0]


async def _relay(connection: socket.socket, address: tuple[str, int]) -> None:
    """Join ``connection`` to the server at ``address``, until one of them closes it."""
    with suppress(OSError):
        reader, writer = await asyncio.open_connection(sock=connection)
        server_reader, server_writer = await asyncio.open_connection(*address[:2])
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
