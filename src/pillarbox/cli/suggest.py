"""What a shell may offer for names that only the database knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.cli.options import Options

Suggest = Callable[[click.Context, click.Parameter, str], list[str]]
_MOST = 50
_PATIENCE = 2.0


def _from(look: Callable[[Pillarbox, str], Coroutine[Any, Any, Iterable[str]]]) -> Suggest:
    """Names that begin as what was typed; none where they cannot be read, and no database is made for this."""

    def suggest(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        found: Iterable[str] = ()
        with suppress(Exception):
            if context.obj.is_there():
                found = asyncio.run(_ask(context.obj, lambda box: look(box, typed)))
        return [name for name in found if name.startswith(typed)]

    return suggest


async def _ask(options: Options, look: Callable[[Pillarbox], Coroutine[Any, Any, Iterable[str]]]) -> Iterable[str]:
    async with asyncio.timeout(_PATIENCE), options.open(migrate=False) as box:
        return await look(box)


async def _sessions(box: Pillarbox, typed: str) -> Iterable[str]:
    return [each.session_id for each in await box.sessions.list(limit=_MOST, after=typed)]


async def _tenants(box: Pillarbox, typed: str) -> Iterable[str]:
    return [each.tenant_id for each in await box.tenants.list(limit=_MOST, after=typed)]


async def _messages(box: Pillarbox, typed: str) -> Iterable[str]:
    return [each.message_id for each in await box.outbound.list(limit=_MOST)]


async def _stuck_messages(box: Pillarbox, typed: str) -> Iterable[str]:
    return [str(each.id) for each in await box.inbound.list(status="failed", limit=_MOST)]


sessions, tenants = _from(_sessions), _from(_tenants)
messages, stuck_messages = _from(_messages), _from(_stuck_messages)
