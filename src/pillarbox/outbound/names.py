"""What a name stands for at this moment, and whether every one of its addresses may be sent to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pillarbox.outbound.addresses import forbidden
from pillarbox.outbound.destinations import Blocked

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text; an OSError where there are none."""

# Of their own, because a name server that does not answer holds its thread, and reading files must not wait for it.
_threads = ThreadPoolExecutor(max_workers=32, thread_name_prefix="pillarbox-names")


async def look_up(host: str, port: int) -> list[str]:
    """Ask the system for all addresses of a host."""
    found = await asyncio.get_running_loop().run_in_executor(_threads, _addresses, host, port)
    return list(dict.fromkeys(found))


async def addresses(host: str, port: int, *, trusted: bool, lookup: Lookup = look_up) -> Sequence[str]:
    """All addresses of a host, each one judged: `Blocked` if a single one is forbidden."""
    found = await lookup(host, port)
    for address in found:
        refuse_forbidden(address, trusted=trusted)
    return found


def refuse_forbidden(address: str, *, trusted: bool) -> None:
    """Raise `Blocked` for an address that nothing is sent to."""
    if reason := forbidden(address, trusted=trusted):
        raise Blocked(f"The destination is {reason}, which nothing is sent to.")


def _addresses(host: str, port: int) -> list[str]:
    # The link of a link-local IPv6 address is left out: such an address is never sent to.
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(sockaddr[0]).partition("%")[0] for *_, sockaddr in found]
