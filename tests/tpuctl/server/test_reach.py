"""Where the control plane may listen, TLS, and the proxy."""

from __future__ import annotations

import asyncio
import ssl
import stat
from pathlib import Path

import pytest

from tpuctl.api.errors import InvalidArgument
from tpuctl.server.proxy import Proxy
from tpuctl.server.reach import Tls, check_reach, tls_of

TLS = Tls(Path("c"), Path("k"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104
def test_beyond_this_machine_it_listens_only_with_tls_and_tokens(host: str) -> None:
    check_reach(host, TLS, anonymous=False)
    for tls, anonymous in ((None, False), (None, True), (TLS, True)):
        with pytest.raises(InvalidArgument, match="not a loopback address"):
            check_reach(host, tls, anonymous)


def test_on_loopback_it_listens_anyhow() -> None:
    check_reach("127.0.0.1", None, anonymous=True)


def test_what_is_no_certificate_and_its_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("nothing")
    for pair in ((tmp_path / "c", None), (None, tmp_path / "c"), (tmp_path / "c",) * 2, (tmp_path / "no",) * 2):
        with pytest.raises(InvalidArgument):
            tls_of(*pair)


def test_the_proxy_brings_googles_apis_here_and_refuses_all_else(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here: " + await reader.readline())
        writer.close()

    async def ask(port: int, host: str, context: ssl.SSLContext | None) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        said = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " in said and context is not None:
            await writer.start_tls(context, server_hostname=host.partition(":")[0])
            writer.write(b"hello\n")
            said = await reader.read()
        writer.close()
        return said

    async def tries() -> None:
        there = await asyncio.start_server(echo, "127.0.0.1", 0)
        proxy = Proxy(tmp_path / "proxy", there.sockets[0].getsockname()[:2])
        url, certificate = await proxy.start()
        port, trusting = int(url.rpartition(":")[2]), ssl.create_default_context(cafile=str(certificate))
        assert await ask(port, "tpu.googleapis.com:443", trusting) == b"here: hello\n"
        for host in ("example.com:443", "tpu.googleapis.com:22", "googleapis.com.evil.example:443", "127.0.0.1:443"):
            assert b" 403 " in await ask(port, host, None), host
        await proxy.close()
        again = Proxy(tmp_path / "proxy", ("127.0.0.1", 1))
        assert await again.start() == (url, certificate)
        await again.close()
        there.close()

    asyncio.run(asyncio.wait_for(tries(), 20))
    assert stat.S_IMODE((tmp_path / "proxy/key.pem").stat().st_mode) == 0o600
