from collections.abc import AsyncIterator

import pytest

from tests.contracts.boxes import Node, node_at, node_on


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Each kind of database that a contract holds on."""
    match request.param:
        case "memory":
            return "sqlite:///:memory:"
        case "file":
            return str(request.getfixturevalue("sqlite_url"))
        case _:
            return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def node(url: str) -> AsyncIterator[Node]:
    async with node_at(url) as opened:
        yield opened


@pytest.fixture
async def other(node: Node) -> AsyncIterator[Node]:
    """Another process on the same database."""
    there = node_on(node.database, node.clock, "there")
    yield there
    await there.inbound.close()
