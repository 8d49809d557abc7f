"""A proxy on loopback for clients with fixed addresses: what they send to Google's APIs comes here instead.

It answers CONNECT for *.googleapis.com alone, ends TLS with a certificate of its own authority (certificates.py), and
passes on what it reads, unchanged: HTTP/2, which only gRPC asks for, to the gRPC port, and all else to the HTTP port.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from contextlib import suppress
from pathlib import Path

from backend.files import write_text
from tpuctl.api.errors import ApiError
from tpuctl.server.certificates import Authority

CONNECT = re.compile(rb"CONNECT ((?:[a-z0-9-]{1,63}\.){1,4}googleapis\.com):443 HTTP/1\.[01]\r\n", re.IGNORECASE)
LOOPBACK = "127.0.0.1"
HEAD_SECONDS, CHUNK_BYTES = 10.0, 64 << 10
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
REFUSED = (
    b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"tpuctl's proxy is for https://*.googleapis.com alone\n"
)
Address = tuple[str, int]
log = logging.getLogger("tpuctl.proxy")


class Proxy:
    """``http`` and ``grpc`` are where the control plane is served; with ``tls`` if that is over TLS."""

    def __init__(
        self, directory: Path, http: Address, grpc: Address | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._directory = directory
        self._http, self._grpc, self._tls = http, grpc, tls
        self._server: asyncio.Server | None = None
        self._authority: Authority | None = None
        self._starting = asyncio.Lock()
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> tuple[str, Path]:
        """Its URL and its authority's certificate; it is started if it does not run. Raises ApiError, OSError."""
        async with self._starting:
            if self._server is None or self._authority is None:
                self._authority = await asyncio.to_thread(Authority, self._directory)
                self._server = await self._listen()
            port = self._server.sockets[0].getsockname()[1]
            return f"http://{LOOPBACK}:{port}", self._authority.certificate_file

    async def start_again(self) -> None:
        """Where one was asked for before: a failure of it keeps nothing else from starting."""
        if (self._directory / "port").exists():
            try:
                await self.start()
            except (ApiError, OSError, ValueError) as error:
                log.warning("the proxy cannot be started", extra={"reason": str(error)})

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.close()

    async def _listen(self) -> asyncio.Server:
        """On the port that it had before, if that is still free."""
        remembered = self._directory / "port"
        try:
            port = int(remembered.read_text())
            return await asyncio.start_server(self._answer, LOOPBACK, port)
        except (OSError, ValueError, OverflowError):
            server = await asyncio.start_server(self._answer, LOOPBACK, 0)
        write_text(remembered, f"{server.sockets[0].getsockname()[1]}\n")
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.info("connection ended", extra={"reason": f"{type(error).__name__}"})
        finally:
            self._open.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
        asked = CONNECT.match(head)
        if asked is None or self._authority is None:
            writer.write(REFUSED)
            await writer.drain()
            return
        protocols = ["h2", "http/1.1"] if self._grpc else ["http/1.1"]
        context = await asyncio.to_thread(self._authority.context, asked[1].decode().lower(), protocols)
        writer.write(ESTABLISHED)
        await writer.drain()
        await writer.start_tls(context, ssl_handshake_timeout=HEAD_SECONDS)
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        host, port = self._grpc if chosen == "h2" and self._grpc else self._http
        tls = self._tls
        if tls is not None:
            tls.set_alpn_protocols(["h2" if chosen == "h2" else "http/1.1"])
        there_reader, there = await asyncio.open_connection(host, port, ssl=tls)
        await asyncio.gather(_copy(reader, there), _copy(there_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
