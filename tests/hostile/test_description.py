"""Requests made from the OpenAPI document, right ones and wrong ones: every answer is as the document says."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from starlette.types import Message, Receive, Scope, Send

from pillarbox.api.app import Api, create_app
from pillarbox.api.openapi import describe
from pillarbox.api.routes import ENDPOINTS
from tests.api.client import ADMIN_KEY
from tests.hostile.stand import Stand, open_stand
from tests.servers.daemon import SECONDS

pytestmark = pytest.mark.long

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
EXAMPLES = int(os.environ.get("PILLARBOX_TEST_HOSTILE_EXAMPLES", "10"))
HOST = "testserver"
KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}
ABOUT_ANSWERS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


class Bridge:
    """An application whose box lives in the event loop of another thread."""

    _app: Api
    _stand: Stand
    _loop: asyncio.AbstractEventLoop

    async def hold(self, url: str, opened: "Future[None]", stop: "Future[None]") -> None:
        """Keep a box open, in this thread's loop, until told to stop."""
        async with open_stand(url) as stand:
            self._stand = stand
            self._app = create_app(stand.box, admin_key=ADMIN_KEY, bound_hosts=[HOST])
            self._loop = asyncio.get_running_loop()
            opened.set_result(None)
            await asyncio.wrap_future(stop)

    def prepare(self) -> dict[str, str]:
        """Make one of everything, and tell its names."""
        asyncio.run_coroutine_threadsafe(self._stand.prepare(), self._loop).result(SECONDS)
        return self._stand.names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        asked: list[Message] = []
        while not asked or asked[-1].get("more_body", False):
            asked.append(await receive())
        over_there = asyncio.run_coroutine_threadsafe(self._answer(scope, asked), self._loop)
        for message in await asyncio.wrap_future(over_there):
            await send(message)

    async def _answer(self, scope: Scope, asked: list[Message]) -> list[Message]:
        coming = iter(asked)
        sent: list[Message] = []

        async def receive() -> Message:
            return next(coming, {"type": "http.disconnect"})

        async def send(message: Message) -> None:
            sent.append(message)

        async with asyncio.timeout(SECONDS):
            await self._app(scope, receive, send)
        return sent


bridge = Bridge()
schema = schemathesis.openapi.from_dict(describe(ENDPOINTS))
schema.app = bridge


@pytest.fixture(scope="module", autouse=True)
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    url = f"sqlite:///{tmp_path_factory.mktemp('description') / 'pillarbox.db'}"
    opened: Future[None] = Future()
    stop: Future[None] = Future()
    holding = threading.Thread(target=lambda: asyncio.run(bridge.hold(url, opened, stop)))
    holding.start()
    opened.result(SECONDS)
    yield
    stop.set_result(None)
    holding.join()


@pytest.fixture
def names() -> dict[str, str]:
    return bridge.prepare()


def few(test: Callable[..., None]) -> Callable[..., None]:
    """A bounded number of examples, the same ones every time."""
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    return hypothesis.seed(SEED)(settings(test))


@schema.parametrize()
@few
def test_answers_are_as_the_document_says(case: Any) -> None:
    # A schema cannot say all that a field may not hold, and what is left of a spoilt query is often no more than an
    # empty parameter, which counts as not given; test_requests.py spoils queries by hand.
    left_out: list[Any] = [positive_data_acceptance, negative_data_rejection][: 2 if case.method == "GET" else 1]
    if not case.operation.path.startswith("/v1/"):
        # A page asks who it is before it says anything, also that it does not know the method or the id.
        left_out += [unsupported_method, negative_data_rejection]
    case.call_and_validate(headers=KEY, excluded_checks=left_out)


@schema.include(path_regex="{").parametrize()
@few
def test_answers_about_what_exists_are_as_the_document_says(names: dict[str, str], case: Any) -> None:
    """The ids of the other test are made up, so that most of its answers are 404."""
    kind = "event_id" if case.operation.path.startswith("/v1/hooks") else "id"
    for name in case.path_parameters:
        case.path_parameters[name] = names[kind if name == "id" else name]
    case.call_and_validate(headers=KEY, checks=ABOUT_ANSWERS)
