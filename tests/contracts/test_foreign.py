"""A step inside the caller's own transaction: it is committed with that, or not at all, and never harms it."""

import asyncio
import base64
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import NotFound, OptedOut
from pillarbox.hooks.model import Checked
from pillarbox.hooks.strands import enqueue as enqueue_events
from pillarbox.outbound.messages import Sms
from pillarbox.outbound.model import NewTenant
from pillarbox.settings import load_settings
from pillarbox.storage import Database, Row, Step, together
from tests.contracts.callers import KINDS, Caller, connect, watch_threads
from tests.contracts.notes import add, ids, opened, queries, with_notes

AN_HOUR_EAST = timezone(timedelta(hours=1))
MORNING = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=AN_HOUR_EAST)


class Spoiled(Exception):
    """A failure of the step itself."""


def spoiled(note_id: int) -> Step[None]:
    yield queries.add(id=note_id, body="never")
    raise Spoiled


def doubled(note_id: int) -> Step[None]:
    yield queries.add(id=note_id, body="never")
    yield queries.add_answering(id=note_id, body="twice")


def echo(rows: list[Row]) -> Step[list[Row]]:
    found, again = yield from together(queries.echo(rows=rows), queries.echo(rows=[]))
    assert again == []
    return found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def caller_url(kind: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("sqlite_url" if kind.startswith("apsw") else "postgres_url"))


@pytest.fixture
async def database(caller_url: str) -> AsyncIterator[Database]:
    async with with_notes(caller_url) as found:
        yield found


@pytest.fixture
async def caller(kind: str, caller_url: str, database: Database) -> AsyncIterator[Caller]:
    found = await connect(kind, caller_url)
    yield found
    await found.close()


async def test_what_the_caller_commits_is_there_with_what_it_wrote_itself(caller: Caller, database: Database) -> None:
    await caller.sql("INSERT INTO note (id, body) VALUES (1, 'theirs')")
    assert await caller.run(partial(add, 2), database) == 2
    assert await ids(database) == []
    await caller.sql("COMMIT")
    assert await ids(database) == [1, 2]


async def test_what_the_caller_rolls_back_never_was(caller: Caller, database: Database) -> None:
    await caller.sql("INSERT INTO note (id, body) VALUES (1, 'theirs')")
    await caller.run(partial(add, 2), database)
    await caller.sql("ROLLBACK")
    assert await ids(database) == []


async def test_a_connection_that_goes_away_takes_it_along(caller: Caller, database: Database) -> None:
    await caller.run(partial(add, 1), database)
    await caller.close()
    assert await database.write(partial(add, 2)) == 2
    assert await ids(database) == [2]


async def test_the_step_sees_what_the_caller_has_not_committed(caller: Caller, database: Database) -> None:
    await caller.sql("INSERT INTO note (id, body) VALUES (1, 'theirs')")

    def look() -> Step[list[Row]]:
        return (yield queries.among(bodies=["theirs", "others"]))

    assert await caller.run(look, database) == [(1,)]


async def test_all_of_it_happens_on_the_callers_thread(caller: Caller, database: Database) -> None:
    threads: set[int] = set()
    watch_threads(caller, lambda: threads.add(threading.get_ident()))
    await caller.run(partial(add, 1), database)
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("failing", [spoiled, doubled])
async def test_a_step_that_fails_leaves_the_callers_transaction_as_it_was(
    caller: Caller, database: Database, failing: object
) -> None:
    await caller.sql("INSERT INTO note (id, body) VALUES (1, 'theirs')")
    with pytest.raises(Exception, match=r"^$|duplicate|UNIQUE"):
        await caller.run(lambda: failing(2), database)  # type: ignore[operator]
    await caller.run(partial(add, 3), database)
    await caller.sql("INSERT INTO note (id, body) VALUES (4, 'theirs')")
    await caller.sql("COMMIT")
    assert await ids(database) == [1, 3, 4]


async def test_the_first_thing_of_a_transaction_may_fail(caller: Caller, database: Database) -> None:
    with pytest.raises(Spoiled):
        await caller.run(lambda: spoiled(1), database)
    await caller.sql("INSERT INTO note (id, body) VALUES (2, 'theirs')")
    await caller.sql("COMMIT")
    assert await ids(database) == [2]


async def test_a_savepoint_of_the_callers_own_covers_it(caller: Caller, database: Database) -> None:
    await caller.run(partial(add, 1), database)
    await caller.sql("SAVEPOINT pillarbox")
    await caller.run(partial(add, 2), database)
    with pytest.raises(Spoiled):
        await caller.run(lambda: spoiled(3), database)
    await caller.sql("ROLLBACK TO SAVEPOINT pillarbox")
    await caller.sql("RELEASE SAVEPOINT pillarbox")
    await caller.run(partial(add, 4), database)
    await caller.sql("COMMIT")
    assert await ids(database) == [1, 4]


async def test_values_arrive_as_in_a_transaction_of_the_boxs_own(caller: Caller, database: Database) -> None:
    rows: list[Row] = [(1, 'ü"\\{},', MORNING), (2, "", None), (3, None, MORNING.astimezone(UTC)), (None, "NULL", None)]
    theirs = await caller.run(partial(echo, rows), database)
    assert theirs == await database.read(partial(echo, rows))
    assert len(theirs) == 4


async def test_steps_on_one_connection_at_once_take_turns(caller: Caller, database: Database) -> None:
    works = [partial(add, n) if n % 3 else partial(spoiled, n) for n in range(30)]
    answers = await asyncio.gather(*(caller.run(work, database) for work in works), return_exceptions=True)
    assert [isinstance(answer, Spoiled) for answer in answers] == [n % 3 == 0 for n in range(30)]
    await caller.sql("COMMIT")
    assert await ids(database) == [n for n in range(30) if n % 3]


async def test_the_boxs_own_writes_and_the_callers_do_not_lose_each_other(caller: Caller, database: Database) -> None:
    own = [asyncio.create_task(database.write(partial(add, 1000 + n))) for n in range(100)]
    for n in range(100):
        await caller.run(partial(add, n), database)
        await asyncio.sleep(0)
    assert not set(range(100)) & set(await ids(database))
    await caller.sql("COMMIT")
    await asyncio.gather(*own)
    assert await ids(database) == [*range(100), *range(1000, 1100)]


@pytest.fixture
async def box(caller_url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, secrets={"key": base64.b64encode(bytes(32)).decode()})
    async with Pillarbox.open(caller_url, settings=settings) as found:
        await found.outbound.tenants.put("acme", NewTenant(providers={"sms": {"provider": "sandbox"}}))
        yield found


@pytest.fixture
async def guest(kind: str, caller_url: str, box: Pillarbox) -> AsyncIterator[Caller]:
    found = await connect(kind, caller_url)
    yield found
    await found.close()


def sms(text: str = "Your order is on its way.") -> Sms:
    return Sms(to="+32470123456", text=text)


async def sent_of(box: Pillarbox) -> list[str]:
    return sorted(item.message_id for item in await box.outbound.list(limit=1000))


async def test_a_message_exists_exactly_if_the_caller_commits(guest: Caller, box: Pillarbox) -> None:
    first = await box.outbound.send("acme", sms(), connection=guest.connection)
    assert await sent_of(box) == []
    await guest.sql("COMMIT")
    assert await sent_of(box) == [first]
    await guest.sql("BEGIN")
    await box.outbound.send("acme", sms(), connection=guest.connection)
    await guest.sql("ROLLBACK")
    assert await sent_of(box) == [first]


async def test_an_idempotency_key_is_taken_only_if_the_caller_commits(guest: Caller, box: Pillarbox) -> None:
    lost = await box.outbound.send("acme", sms(), idempotency_key="order-1", connection=guest.connection)
    await guest.sql("ROLLBACK")
    await guest.sql("BEGIN")
    kept = await box.outbound.send("acme", sms(), idempotency_key="order-1", connection=guest.connection)
    assert await box.outbound.send("acme", sms(), idempotency_key="order-1", connection=guest.connection) == kept
    await guest.sql("COMMIT")
    assert lost != kept
    assert await sent_of(box) == [kept]


async def test_a_message_that_is_refused_leaves_the_rest_of_the_transaction(guest: Caller, box: Pillarbox) -> None:
    await guest.sql("ROLLBACK")
    await box.outbound.opt_out("acme", "+32470123456")
    await guest.sql("BEGIN")
    with pytest.raises(OptedOut):
        await box.outbound.send("acme", sms(), connection=guest.connection)
    with pytest.raises(NotFound):
        await box.outbound.send("nobody", sms(), connection=guest.connection)
    other = await box.outbound.send("acme", Sms(to="+32470654321", text="Hello."), connection=guest.connection)
    await guest.sql("COMMIT")
    pending = [item.message_id for item in await box.outbound.list() if item.status == "pending"]
    assert pending == [other]


async def test_a_thousand_messages_in_one_transaction_go_out_together(guest: Caller, box: Pillarbox) -> None:
    sent = [await box.outbound.send("acme", sms(f"Number {n}"), connection=guest.connection) for n in range(1000)]
    assert await sent_of(box) == []
    await guest.sql("COMMIT")
    assert await sent_of(box) == sorted(sent)


async def test_events_of_the_other_pipe_join_as_well(guest: Caller, caller_url: str, box: Pillarbox) -> None:
    await guest.sql("ROLLBACK")
    await box.sessions.open(session_id="s1", target={"kind": "http", "url": "http://one.example/"})
    await guest.sql("BEGIN")
    now = box.database.clock.now()
    async with opened(caller_url) as database:
        answers = await guest.run(partial(enqueue_events, [Checked("s1", "agent_stop", "{}", now)], now=now), database)
    assert not isinstance(answers[0], Exception)
    await guest.sql("COMMIT")
    assert [event.event_type for event in await box.hooks.list(session_id="s1")] == ["agent_stop"]
