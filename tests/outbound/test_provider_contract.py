from typing import Any, cast

import pytest

from pillarbox.outbound.provider import HttpProvider
from pillarbox.outbound.providers import providers
from tests.outbound.provider_contract import FIXTURES, ProviderContract, Stage, documented

BY_HTTP: list[Any] = [provider for provider in providers().values() if hasattr(provider, "request")]


@pytest.fixture(scope="module", params=BY_HTTP, ids=lambda provider: str(provider.name))
def stage(request: pytest.FixtureRequest) -> Stage:
    provider = cast(HttpProvider, request.param)
    return Stage(provider, documented(provider.name))


class TestEveryProvider(ProviderContract):
    pass


def test_every_file_of_answers_belongs_to_a_provider() -> None:
    assert {file.stem for file in FIXTURES.glob("*.json")} == {provider.name for provider in BY_HTTP}


def test_sixty_answers_and_more_are_documented() -> None:
    assert sum(len(documented(provider.name)["answers"]) for provider in BY_HTTP) >= 60
