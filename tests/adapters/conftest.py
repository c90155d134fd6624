from collections.abc import AsyncIterator

import pytest

from tests.adapters.platforms import PLATFORMS, Platform
from tests.adapters.stand import Stand, standing


@pytest.fixture(
    params=[*(("sqlite", platform) for platform in PLATFORMS), ("postgres", PLATFORMS[0])],
    ids=lambda place: f"{place[1]}-{place[0]}",
)
def place(request: pytest.FixtureRequest) -> tuple[str, Platform]:
    """A database's address, and who posts; each platform on SQLite, and one on PostgreSQL: behind adapters all is the same."""
    database, platform = request.param
    return request.getfixturevalue(f"{database}_url"), platform


@pytest.fixture
def url(place: tuple[str, Platform]) -> str:
    return place[0]


@pytest.fixture
def platform(place: tuple[str, Platform]) -> Platform:
    return place[1]


@pytest.fixture
async def stand(url: str, platform: Platform) -> AsyncIterator[Stand]:
    async with standing(url, platform) as opened:
        yield opened
