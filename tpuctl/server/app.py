"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware

from tpuctl.control.plane import ControlPlane
from tpuctl.server import companions, discovery, rest, v1
from tpuctl.server.auth import BearerAuth
from tpuctl.server.proxy import Proxy
from tpuctl.server.replies import HANDLERS


def application(
    plane: ControlPlane,
    token: str,
    on_ready: Callable[[], None] = lambda: None,
    beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    proxy: Proxy | None = None,
) -> Starlette:
    """All routes behind the token. The control plane's loop runs while the application does, and what is ``beside``."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(plane.start)
        async with beside():
            if proxy is not None:
                await proxy.start_again()
            on_ready()
            yield
        if proxy is not None:
            await proxy.close()
        await run_in_threadpool(plane.end)

    plane.access.set_owner(token)
    return Starlette(
        routes=[*companions.routes(plane), *rest.routes(plane), discovery.route(plane), *v1.routes(plane, proxy)],
        middleware=[Middleware(BearerAuth, access=plane.access)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
