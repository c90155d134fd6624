from collections.abc import AsyncIterator

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client
from tests.dashboard.signed_in import Browser, cookie_of, sign_in
from tests.servers.daemon import key_for

SANDBOX = {"provider": "sandbox"}


@pytest.fixture
async def box(sqlite_url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ=key_for(sqlite_url))
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as opened:
        await opened.tenants.set("acme", providers=dict.fromkeys(("email", "sms", "push", "webhook"), SANDBOX))
        yield opened


@pytest.fixture
def client(box: Pillarbox) -> Client:
    return Client(create_app(box, admin_key=ADMIN_KEY))


@pytest.fixture
def stranger(client: Client) -> Client:
    """Somebody without a key or a cookie."""
    return client.with_key(None)


@pytest.fixture
async def browser(stranger: Client) -> Browser:
    """An operator's browser, signed in."""
    return Browser(stranger, cookie_of(await sign_in(stranger)))
