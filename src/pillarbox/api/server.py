"""Serving over a socket: uvicorn, without its signal handlers, and with limits of our own."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from pillarbox.api.app import create_app
from pillarbox.api.hosts import is_loopback
from pillarbox.api.protocol import BoundedProtocol
from pillarbox.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox

_KEEP_ALIVE_SECONDS = 30
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it, and says when it takes requests."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()


async def serve(
    box: Pillarbox,
    *,
    host: str,
    port: int,
    admin_key: str | None,
    ready: Callable[[str], None],
    listening: socket.socket | None = None,
) -> None:
    """Serve until cancelled, then let requests under way end; `ready` is told the address with the real port.

    A socket that was bound before is taken over; otherwise one is bound to the host and port.
    """
    if not is_loopback(host) and not admin_key and not await box.keys.any_admin():
        raise InvalidInput(
            "host", f"{host} can be reached from outside and no key is configured; set PILLARBOX_ADMIN_KEY first."
        )
    if listening is None:
        listening = bind(host, port)
    shown_host = f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{listening.getsockname()[1]}"
    app = create_app(box, admin_key=admin_key, bound_hosts=[host])
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(box.settings.shutdown.grace_seconds),
        backlog=_BACKLOG,
    )
    server = _Server(config, lambda: ready(address))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    looking = asyncio.create_task(app.pulse.run())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        app.stop()
        await serving
        raise
    finally:
        looking.cancel()
        listening.close()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that the port is ours before anything is said of it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInput("host", f"{host} is no address of this machine: {error.strerror}.") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"Cannot listen on {host} port {port}: {error.strerror}; choose another port, as with --port."
        ) from error
    listening.setblocking(False)
    return listening
