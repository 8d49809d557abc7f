"""`tpuctl serve` as a process: over TLS it is reached with trust and a token only, and it refuses to listen without."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tpuctl.api.home import Home

pytest.importorskip("cryptography")
from self_signed import self_signed

NODES = "/v2/projects/local/locations/europe-west4-a/nodes"
Serve = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def serve(home: Home) -> Iterator[Serve]:
    """Starts `tpuctl serve` with these options; what was started is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tpuctl", "serve", *options]
        settings = os.environ | {"TPUCTL_HOME": str(home.path), "TPUCTL_PORT": "0"}
        started.append(
            subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate(timeout=10)


@pytest.mark.slow
def test_over_tls_it_answers_who_trusts_it_and_has_a_token(
    serve: Serve, home: Home, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    tls = self_signed(tmp_path)
    process = serve("--host", "0.0.0.0", "--tls-cert", str(tls.certificate), "--tls-key", str(tls.key))  # noqa: S104
    wait_until(lambda: home.server.exists() or process.poll() is not None, 30)
    about = json.loads(home.server.read_text())
    assert about["url"].startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=str(tls.certificate))
    with httpx.Client(base_url=about["url"], verify=trusting, timeout=10) as client:
        assert client.get(NODES).status_code == 401
        known = {"authorization": f"Bearer {home.token.read_text().strip()}"}
        assert client.get(NODES, headers=known).json() == {"nodes": []}
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(about["url"], timeout=10)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(about["url"].replace("https", "http"), timeout=10)
    process.terminate()
    assert process.wait(10) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give a certificate: --tls-cert FILE --tls-key FILE"),
        (("--anonymous",), "--anonymous is for this machine only"),
    ],
)
def test_beyond_loopback_it_refuses_and_leaves_nothing(
    serve: Serve, home: Home, options: tuple[str, ...], said: str
) -> None:
    process = serve("--host", "0.0.0.0", *options)  # noqa: S104
    _, told = process.communicate(timeout=30)
    assert process.returncode == 2
    assert said in told
    assert len(told.strip().splitlines()) == 1
    assert not home.server.exists()
