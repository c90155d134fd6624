"""Python targets that do what nobody should: nothing of it may keep an outcome from being recorded."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, cast

import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped
from pillarbox.inbound import InboundMessage
from pillarbox.inbound.model import Status
from pillarbox.inbound.targets.function import outcome_of
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


NAIVE = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Retry("x", at=NAIVE), "Retry with a value of `at` that is not a datetime with a timezone"),
        (Retry("x", at=cast(Any, "tomorrow")), "Retry with a value of `at` that is not a datetime with a timezone"),
        (Retry("x", at=cast(Any, 1e10)), "Retry with a value of `at` that is not a datetime with a timezone"),
        (
            Retry("x", at=datetime.max.replace(tzinfo=UTC)),
            "that is not a datetime with a timezone, before the year 9999",
        ),
        (Retry("x", not_before=NAIVE), "Retry with a value of `not_before` that is not a datetime with a timezone"),
        (Retry("x", counts=cast(Any, None)), "Retry with a value of `counts` that is not True or False"),
        (Retry(cast(Any, ValueError("x"))), "Retry with a value of `error` that is not text"),
        (Failed(cast(Any, None)), "Failed with a value of `error` that is not text"),
        (Skipped(cast(Any, 5)), "Skipped with a value of `reason` that is not text"),
        (Skipped("x", at=NAIVE), "Skipped with a value of `at` that is not a datetime with a timezone"),
        (Failed, "the class Failed instead of one of that class"),
    ],
)
def test_an_outcome_that_cannot_be_recorded_is_a_failed_attempt_that_says_why(answer: object, told: str) -> None:
    outcome = outcome_of(answer)
    assert isinstance(outcome, Retry)
    assert outcome.error.startswith("The function answered ")
    assert told in outcome.error
    assert (outcome.at, outcome.not_before) == (None, None)


LATER = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    "outcome",
    [Delivered("r"), Retry("x", at=LATER, not_before=LATER, counts=False), Skipped("x", at=LATER), Failed("x")],
)
def test_an_outcome_that_can_be_recorded_is_taken_as_it_is(outcome: Outcome) -> None:
    assert outcome_of(outcome) is outcome


@pytest.mark.parametrize("answer", [None, "done", 0, Delivered])
def test_whatever_else_a_function_answers_is_a_delivery(answer: object) -> None:
    assert outcome_of(answer) == Delivered()


async def test_a_time_that_is_no_time_is_told_and_keeps_nobody_from_looking(box: Pillarbox) -> None:
    async def deliver(message: InboundMessage) -> Outcome:
        return Retry("busy", at=cast(Any, "tomorrow"))

    box.inbound.target("t")(deliver)
    message = await settled(box, "failed")
    assert "`at`" in (message.last_error or "")
    assert (await box.inbound.queue("s1")).failed == 1


async def test_a_plain_function_is_called_in_a_thread_of_its_own(box: Pillarbox) -> None:
    called_in = []

    @box.inbound.target("t")
    def deliver(message: InboundMessage) -> None:
        called_in.append(threading.current_thread())

    assert (await settled(box, "delivered")).attempt_count == 1
    assert len(called_in) == 1
    assert called_in[0] is not threading.main_thread()


async def test_what_a_plain_function_answers_counts_as_an_async_ones_does(box: Pillarbox) -> None:
    @box.inbound.target("t")
    def deliver(message: InboundMessage) -> Outcome:
        return Retry("not today")

    assert (await settled(box, "failed")).last_error == "not today"


async def test_what_a_plain_function_begins_is_awaited(box: Pillarbox) -> None:
    @box.inbound.target("t")
    def deliver(message: InboundMessage) -> Awaitable[None]:
        return raising("in the end")(message)

    assert (await settled(box, "failed")).last_error == "ValueError: in the end"


@pytest.mark.parametrize("ending", ["close", "expire"])
async def test_a_function_that_ends_its_own_message_goes_on(box: Pillarbox, ending: str) -> None:
    ended = asyncio.Event()

    @box.inbound.target("t")
    async def deliver(message: InboundMessage) -> None:
        await end(box, message, ending)
        await box.sessions.list()
        ended.set()

    message = await settled(box, "expired", until=ended)
    assert message.attempt_count == 1


async def test_a_plain_function_that_ends_its_own_message_goes_on_too(box: Pillarbox) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()

    @box.inbound.target("t")
    def deliver(message: InboundMessage) -> None:
        asyncio.run_coroutine_threadsafe(end(box, message, "expire"), loop).result(10)
        loop.call_soon_threadsafe(ended.set)

    assert (await settled(box, "expired", until=ended)).attempt_count == 1


async def test_a_message_whose_files_were_still_being_fetched_at_a_stop_was_not_tried(box: Pillarbox) -> None:
    fetching = asyncio.Event()

    async def prepare(message: InboundMessage) -> InboundMessage:
        fetching.set()
        await asyncio.Event().wait()
        return message

    box.inbound.prepare = prepare
    box.inbound.target("t")(raising("never called"))
    await box.sessions.open(session_id="s1", target={"kind": "python", "name": "t"})
    enqueued = await box.inbound.enqueue(session_id="s1", origin="test", message_type="voice", payload={})
    working = asyncio.create_task(box.run())
    await fetching.wait()
    working.cancel()
    await asyncio.wait([working])
    message = await box.inbound.get(enqueued.id)
    assert (message.status, message.attempt_count, message.last_error) == ("pending", 0, None)


async def end(box: Pillarbox, message: InboundMessage, ending: str) -> None:
    if ending == "close":
        await box.sessions.close(message.session_id)
    else:
        await box.inbound.expire(message.id)


def break_target() -> Step[None]:
    yield BREAK_TARGET()


def raising(said: str) -> Callable[[InboundMessage], Awaitable[None]]:
    async def deliver(message: InboundMessage) -> None:
        raise ValueError(said)

    return deliver


async def settled(
    box: Pillarbox, status: Status, *, broken: bool = False, until: asyncio.Event | None = None
) -> InboundMessage:
    await box.sessions.open(session_id="s1", target={"kind": "python", "name": "t"})
    if broken:
        await box.database.write(break_target)
    enqueued = await box.inbound.enqueue(session_id="s1", origin="test", content="x")
    working = asyncio.create_task(box.run())
    try:
        async with asyncio.timeout(10):
            while (message := await box.inbound.get(enqueued.id)).status != status:  # noqa: ASYNC110 - in the database
                await asyncio.sleep(0.01)
            if until is not None:
                await until.wait()
        return message
    finally:
        working.cancel()
        await asyncio.wait([working])
