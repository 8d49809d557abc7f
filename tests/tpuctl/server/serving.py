"""The application behind a real socket, in this process."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from pathlib import Path

import httpx
import uvicorn
from plane_process import FAKE_RUNTIME

from backend.host.executor import LocalExecutor
from tpuctl.api.home import Home
from tpuctl.control.plane import ControlPlane
from tpuctl.server.app import application

TOKEN = "the-token"  # noqa: S105


@contextmanager
def serving(
    plane: ControlPlane, beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
) -> Iterator[str]:
    """The application behind a real socket; gives its URL."""
    config = uvicorn.Config(application(plane, TOKEN, beside=beside), port=0, log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def make_plane(home: Path) -> ControlPlane:
    return ControlPlane(Home(home), LocalExecutor((sys.executable, str(FAKE_RUNTIME))))


def client_of(plane: ControlPlane) -> Iterator[httpx.Client]:
    """A client of the control plane, which is served meanwhile; what it has started is ended afterwards."""
    with serving(plane) as url, httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        yield client
    clean_up(plane)


def clean_up(plane: ControlPlane) -> None:
    """End what it has started."""
    for directory in [*plane.home.path.glob("slices/*"), *plane.home.path.glob("jobs/*")]:
        plane.executor.end(directory, kill=True)
        while plane.executor.is_alive(directory):
            time.sleep(0.01)
