from collections.abc import AsyncIterator

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client
from tests.servers.daemon import key_for


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ=key_for(database_url))
    async with Pillarbox.open(database_url, settings=settings, node="here") as opened:
        yield opened


@pytest.fixture
def client(box: Pillarbox) -> Client:
    return Client(create_app(box, admin_key=ADMIN_KEY))


@pytest.fixture
async def acme(client: Client) -> str:
    """A tenant whose messages go to the sandbox; the path below which everything of it lies."""
    sandbox = {"provider": "sandbox"}
    channels = ("email", "sms", "push", "webhook")
    made = await client.request("PUT", "/v1/tenants/acme", {"providers": dict.fromkeys(channels, sandbox)})
    assert made.status == 201, made.body
    return "/v1/tenants/acme"


@pytest.fixture
async def session(client: Client) -> str:
    """An open session whose target nobody runs, so that its messages wait."""
    opened = await client.post("/v1/sessions", {"session_id": "s1", "target": {"kind": "python", "name": "nobody"}})
    assert opened.status == 201, opened.body
    return "s1"
