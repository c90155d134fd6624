"""Requests made from the OpenAPI document, right ones and wrong ones: every answer is as the document says."""

import asyncio
import os
import threading
import uuid
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
from tests.api.client import ADMIN_KEY, Client
from tests.dashboard.signed_in import cookie_of, sign_in
from tests.hostile.stand import Stand, open_stand
from tests.servers.daemon import SECONDS
from tests.servers.postgres import Postgres

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
MANY = int(os.environ.get("PILLARBOX_TEST_HOSTILE_EXAMPLES", "10"))
FEW = 1
HOST = "testserver"
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
    headers: dict[str, str]

    async def hold(self, url: str, opened: "Future[None]", stop: "Future[None]") -> None:
        """Keep a box open, in this thread's loop, until told to stop."""
        async with open_stand(url) as stand:
            self._stand = stand
            self._app = create_app(stand.box, admin_key=ADMIN_KEY, bound_hosts=[HOST])
            self._loop = asyncio.get_running_loop()
            name, cookie = cookie_of(await sign_in(Client(self._app, host=HOST)))
            self.headers = {"Authorization": f"Bearer {ADMIN_KEY}", name: cookie}
            opened.set_result(None)
            await asyncio.wrap_future(stop)

    @property
    def names(self) -> dict[str, str]:
        return self._stand.names

    def prepare(self) -> dict[str, str]:
        """Make one of everything, and tell its names."""
        asyncio.run_coroutine_threadsafe(self._stand.prepare(), self._loop).result(SECONDS)
        return self.names

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


@pytest.fixture(scope="module", autouse=True, params=["sqlite", "postgres"])
def box(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    url = f"sqlite:///{tmp_path_factory.mktemp('description') / 'pillarbox.db'}"
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        template = request.getfixturevalue("postgres_template")
        url = server.create_database(f"description_{uuid.uuid4().hex}", template=template)
    opened: Future[None] = Future()
    stop: Future[None] = Future()
    holding = threading.Thread(target=lambda: asyncio.run(bridge.hold(url, opened, stop)))
    holding.start()
    opened.result(SECONDS)
    yield
    stop.set_result(None)
    holding.join()


@pytest.fixture
def names(request: pytest.FixtureRequest) -> dict[str, str]:
    """What there is; made anew for whatever may use it up."""
    return bridge.names if "[GET " in request.node.name else bridge.prepare()


def examples(number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """So many requests for each operation, the same ones every time."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        settings = hypothesis.settings(
            max_examples=number,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        return hypothesis.seed(SEED)(settings(test))

    return decorate


def check(case: Any) -> None:
    # A schema cannot say all that a field may not hold, and what is left of a spoilt query is often no more than an
    # empty parameter, which counts as not given; test_requests.py spoils queries by hand.
    left_out: list[Any] = [positive_data_acceptance, negative_data_rejection][: 2 if case.method == "GET" else 1]
    if not case.operation.path.startswith("/v1/"):
        # A page says whatever is wrong as a page, and of a form's token first.
        left_out += [unsupported_method, negative_data_rejection]
    if case.operation.path.startswith("/live/"):
        # A stream is described as the text it is, not as the events that a program may read out of it.
        left_out.append(response_schema_conformance)
    case.call_and_validate(headers=bridge.headers, excluded_checks=left_out)


def check_about_what_exists(case: Any, names: dict[str, str]) -> None:
    """The ids of the other tests are made up, so that most of their answers are 404."""
    kind = "event_id" if "/hooks/" in case.operation.path else "id"
    for name in case.path_parameters:
        case.path_parameters[name] = names[kind if name == "id" else name]
    case.call_and_validate(headers=bridge.headers, checks=ABOUT_ANSWERS)


@schema.include(path_regex="^/(v1|adapters)/").parametrize()
@examples(FEW)
def test_answers_about_what_exists_are_as_the_document_says(names: dict[str, str], case: Any) -> None:
    check_about_what_exists(case, names)


@pytest.mark.long
@schema.parametrize()
@examples(MANY)
def test_many_answers_are_as_the_document_says(case: Any) -> None:
    check(case)


@pytest.mark.long
@schema.include(path_regex="{").parametrize()
@examples(MANY)
def test_many_answers_about_what_exists_are_as_the_document_says(names: dict[str, str], case: Any) -> None:
    check_about_what_exists(case, names)
