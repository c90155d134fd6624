"""Python targets that do what nobody should: nothing of it may keep an outcome from being recorded."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pillarbox import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.inbound.model import Status
from pillarbox.settings import load_settings
from pillarbox.storage import Step
from pillarbox.storage.queries import parse_queries

(BREAK_TARGET,) = parse_queries('-- name: break_target\nUPDATE sessions SET target = \'{"kind": "later"}\'\n')


@pytest.fixture(params=["sqlite_url", "postgres_url"])
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, inbound={"poll_seconds": 0.05})
    async with Pillarbox.open(request.getfixturevalue(request.param), settings=settings) as box:
        yield box


async def test_a_word_of_its_own_is_a_delivery(box: Pillarbox) -> None:
    async def deliver(message: InboundMessage) -> str:
        return "done"

    box.inbound.target("t")(deliver)  # type: ignore[type-var]
    assert (await settled(box, "delivered")).attempt_count == 1


@pytest.mark.parametrize("said", ["a\0b", "a\ud800b"])
async def test_an_error_that_no_database_stores_is_recorded_escaped(box: Pillarbox, said: str) -> None:
    box.inbound.target("t")(raising(said))
    message = await settled(box, "failed")
    assert message.last_error == f"ValueError: a\\u{ord(said[1]):04x}b"


async def test_a_target_that_cannot_be_read_is_an_error_like_any_other(box: Pillarbox) -> None:
    box.inbound.target("t")(raising("never called"))
    message = await settled(box, "failed", broken=True)
    assert message.last_error is not None
    assert "target.kind" in message.last_error


def break_target() -> Step[None]:
    yield BREAK_TARGET()


def raising(said: str) -> Callable[[InboundMessage], Awaitable[None]]:
    async def deliver(message: InboundMessage) -> None:
        raise ValueError(said)

    return deliver


async def settled(box: Pillarbox, status: Status, *, broken: bool = False) -> InboundMessage:
    await box.sessions.open(session_id="s1", target={"kind": "python", "name": "t"})
    if broken:
        await box.database.write(break_target)
    enqueued = await box.inbound.enqueue(session_id="s1", origin="test", content="x")
    working = asyncio.create_task(box.run())
    try:
        async with asyncio.timeout(10):
            while (message := await box.inbound.get(enqueued.id)).status != status:  # noqa: ASYNC110 - in the database
                await asyncio.sleep(0.01)
        return message
    finally:
        working.cancel()
        await asyncio.wait([working])
