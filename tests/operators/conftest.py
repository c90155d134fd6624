from collections.abc import AsyncIterator

import pytest

from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.servers.daemon import key_for

SANDBOX = {"provider": "sandbox"}


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ=key_for(database_url))
    async with Pillarbox.open(database_url, settings=settings, node="here") as opened:
        await opened.tenants.set("acme", providers={"email": SANDBOX, "sms": SANDBOX})
        await opened.tenants.set("rival", providers={"email": SANDBOX})
        yield opened
