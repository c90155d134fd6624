"""A box behind its HTTP API, set up for one platform."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings
from tests.adapters.platforms import Headers, Platform, Said
from tests.api.client import ADMIN_KEY, Client, Reply
from tests.servers.daemon import key_for


@dataclass(frozen=True)
class Stand:
    box: Pillarbox
    client: Client
    platform: Platform

    async def post(self, body: bytes, headers: Headers | None = None) -> Reply:
        """What the platform posts, with its proof unless told otherwise."""
        proof = self.platform.proof(body) if headers is None else headers
        return await self.client.post(self.platform.path, body, headers=proof)

    async def say(self, said: Said) -> Reply:
        return await self.post(self.platform.body(said))

    async def rows(self) -> list[InboundMessage]:
        return await self.box.inbound.list(limit=1000)

    async def only_row(self) -> InboundMessage:
        (row,) = await self.rows()
        return row


@asynccontextmanager
async def standing(
    url: str, platform: Platform, *, secret: bool = True, database: dict[str, Any] | None = None, **adapters: Any
) -> AsyncIterator[Stand]:
    given = platform.settings(secret=secret, **adapters)
    settings = load_settings(environ=key_for(url), adapters=given, database=database or {})
    async with Pillarbox.open(url, settings=settings, node="here") as box:
        yield Stand(box, Client(create_app(box, admin_key=ADMIN_KEY), key=None), platform)
