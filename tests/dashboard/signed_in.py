"""An operator's browser as seen from the server: a cookie, and the token of its forms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlencode

from tests.api.client import ADMIN_KEY, Client, Reply

FORM = ("content-type", "application/x-www-form-urlencoded")


async def sign_in(client: Client, key: str = ADMIN_KEY, *headers: tuple[str, str]) -> Reply:
    return await client.post("/login", urlencode({"key": key}).encode(), headers=[FORM, *headers])


def cookie_of(reply: Reply) -> tuple[str, str]:
    return ("cookie", reply.headers["set-cookie"].partition(";")[0])


def token_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    assert found is not None
    return found[1]


@dataclass(frozen=True)
class Browser:
    client: Client
    cookie: tuple[str, str]

    async def get(self, path: str, *headers: tuple[str, str]) -> Reply:
        return await self.client.get(path, headers=[self.cookie, *headers])

    async def page(self, path: str) -> str:
        reply = await self.get(path)
        assert reply.status == 200, (path, reply.status, reply.body[:300])
        return reply.body.decode()

    async def token(self) -> str:
        return token_in(await self.page("/tenants"))

    async def post(self, path: str, *headers: tuple[str, str], **fields: str) -> Reply:
        body = urlencode({"form_token": await self.token(), **fields}).encode()
        return await self.client.post(path, body, headers=[FORM, self.cookie, *headers])
