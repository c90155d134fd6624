from collections.abc import AsyncIterator

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import Settings
from tests.api.client import ADMIN_KEY, Client


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(database_url, settings=Settings(), node="here") as opened:
        yield opened


@pytest.fixture
def client(box: Pillarbox) -> Client:
    return Client(create_app(box, admin_key=ADMIN_KEY))


@pytest.fixture
async def session(client: Client) -> str:
    """An open session whose target nobody runs, so that its messages wait."""
    opened = await client.post("/v1/sessions", {"session_id": "s1", "target": {"kind": "python", "name": "nobody"}})
    assert opened.status == 201, opened.body
    return "s1"
