"""What only the stores in a database can get wrong: forgetting, restarting, and the plans of their statements."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput
from pillarbox.inbox import SqlInbox
from pillarbox.inbox.sql import _queries as queries
from pillarbox.settings import Inbox as InboxSettings
from pillarbox.settings import Settings
from pillarbox.storage import Database, Row, Statement, Step, Work
from pillarbox.testing import ManualClock
from tests.inbox.stands import WEEK, opened

DAY = 86_400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncIterator[Database]:
    async with opened(database_url, clock) as ready:
        yield ready


@pytest.fixture
def store(database: Database) -> SqlInbox:
    return SqlInbox(database, retention=WEEK)


async def begin(store: SqlInbox, key: str) -> str:
    begun = await store.try_begin(key, lease=60)
    assert begun.lease_id is not None
    return begun.lease_id


async def test_a_key_is_forgotten_when_its_retention_is_over_and_not_before(
    store: SqlInbox, clock: ManualClock
) -> None:
    await store.mark_processed("done", await begin(store, "done"))
    await store.release("free", await begin(store, "free"))
    await begin(store, "abandoned")
    clock.advance(7 * DAY)
    assert await store.cleanup(limit=100) == 0
    clock.advance(61)
    assert (await store.try_begin("done", lease=60)).status == "Processed"
    assert await store.cleanup(limit=100) == 3
    for key in ("done", "free", "abandoned"):
        assert (await store.look(key)).status == "Unknown"
    assert await store.cleanup(limit=100) == 0


async def test_a_leased_key_is_never_forgotten_however_old_it_is(store: SqlInbox, clock: ManualClock) -> None:
    lease_id = await begin(store, "k")
    for _ in range(20):
        clock.advance(DAY)
        assert (await store.extend("k", lease_id, lease=60)).status == "Extended"
        assert await store.cleanup(limit=100) == 0
    assert (await store.mark_processed("k", lease_id)).status == "Processed"
    clock.advance(6 * DAY)
    assert await store.cleanup(limit=100) == 0


async def test_forgetting_is_bounded_and_takes_the_oldest_first(store: SqlInbox, clock: ManualClock) -> None:
    for number in range(10):
        await store.mark_processed(f"k{number}", await begin(store, f"k{number}"))
        clock.advance(1)
    clock.advance(8 * DAY)
    assert await store.cleanup(limit=4) == 4
    assert [(await store.look(f"k{number}")).status for number in range(10)] == ["Unknown"] * 4 + ["Processed"] * 6
    assert [await store.cleanup(limit=4) for _ in range(3)] == [4, 2, 0]


async def test_a_key_that_is_in_use_does_not_hold_up_the_forgetting(postgres_url: str, clock: ManualClock) -> None:
    import psycopg

    async with opened(postgres_url, clock) as database:
        store = SqlInbox(database, retention=WEEK)
        for key in "ab":
            await store.mark_processed(key, await begin(store, key))
        clock.advance(8 * DAY)
        async with await psycopg.AsyncConnection.connect(postgres_url) as other:
            await other.execute("SELECT 1 FROM inbox WHERE key = 'a' FOR UPDATE")
            async with asyncio.timeout(5):
                assert await store.cleanup(limit=100) == 1
        assert await store.cleanup(limit=100) == 1


async def test_an_extension_that_was_held_up_takes_nothing_back(
    store: SqlInbox, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process that was stopped on its way to the database, whose caller asked another one meanwhile."""
    lease_id = await begin(store, "k")
    write, reached, go_on = database.write, asyncio.Event(), asyncio.Event()

    async def held_up(work: Work[list[Row]]) -> list[Row]:
        reached.set()
        await go_on.wait()
        return await write(work)

    with monkeypatch.context() as patch:
        patch.setattr(database, "write", held_up)
        late = asyncio.create_task(store.extend("k", lease_id, lease=60))
        await reached.wait()
    clock.advance(50)
    promised = await store.extend("k", lease_id, lease=60)
    clock.advance(20)
    go_on.set()
    assert await late == promised
    assert (await store.try_begin("k", lease=60)).status == "Busy"
    assert (await store.look("k")).lease_until == promised.expires_at


@pytest.mark.parametrize("days", [0, 6.9, 30.1])
def test_a_retention_outside_7_to_30_days_is_refused(database: Database, days: float) -> None:
    with pytest.raises(InvalidInput, match="retention"):
        SqlInbox(database, retention=timedelta(days=days))


async def test_the_box_forgets_by_itself(database_url: str) -> None:
    clock = ManualClock()
    async with opened(database_url, clock) as database:
        settings = Settings(inbox=InboxSettings(cleanup_seconds=0.02))
        box = Pillarbox(database, settings, node="here")
        await box.inbox.mark_processed("k")
        clock.advance(8 * DAY)
        running = asyncio.create_task(box.run())
        async with asyncio.timeout(10):
            while (await box.inbox.look("k")).status != "Unknown":  # noqa: ASYNC110 - a chore signals nobody
                await asyncio.sleep(0.01)
        box.stop()
        await running


async def test_processed_leased_and_released_keys_outlive_a_restart(database_url: str) -> None:
    async with Pillarbox.open(database_url, settings=Settings()) as box:
        async with box.inbox.once("done") as first:
            first.keep("it")
        held = await box.inbox.try_begin("held", lease=120)
    async with Pillarbox.open(database_url, settings=Settings()) as box:
        done = await box.inbox.try_begin("done")
        assert (done.status, done.result) == ("Processed", "it")
        assert (await box.inbox.try_begin("held")).status == "Busy"
        assert held.lease_id is not None
        assert (await box.inbox.mark_processed("held", held.lease_id)).status == "Processed"


async def test_concurrent_verbs_on_the_same_keys_do_not_deadlock(database_url: str) -> None:
    """Two boxes, so that two transactions meet; each round begins, marks and releases the same keys in another order."""
    async with (
        Pillarbox.open(database_url, settings=Settings()) as one,
        Pillarbox.open(database_url, settings=Settings()) as two,
    ):

        async def work(box: Pillarbox, key: str, number: int) -> int:
            begun = await box.inbox.try_begin(key)
            if begun.lease_id is None:
                return 0
            if number % 3:
                assert (await box.inbox.release(key, begun.lease_id)).status == "Released"
                return 0
            assert (await box.inbox.mark_processed(key, begun.lease_id)).status == "Processed"
            return 1

        async with asyncio.timeout(60):
            for number in range(30):
                keys = [f"{key}" for key in range(20)]
                backwards = list(reversed(keys))
                marked = await asyncio.gather(
                    *(work(one, key, number) for key in keys), *(work(two, key, number) for key in backwards)
                )
                assert sum(marked) <= 20
        assert (await one.inbox_status()).processed == 20


@pytest.fixture
async def crowded(database: Database, clock: ManualClock) -> Database:
    """Twenty thousand processed keys, and a few in use."""
    store = SqlInbox(database, retention=WEEK)
    for start in range(0, 20_000, 2000):
        rows = [(f"{n:064x}", f"k{n}", f"l{n}", None, clock.now(), None) for n in range(start, start + 2000)]
        marks = [(row[0], row[2], None) for row in rows]

        def work(rows: list[object] = rows, marks: list[object] = marks) -> Step[None]:  # type: ignore[assignment]
            yield queries.begin(rows=rows, now=clock.now())
            yield queries.mark(rows=marks, now=clock.now() + timedelta(seconds=len(rows)))

        await database.write(work)
    for key in "abc":
        await begin(store, key)
    return database


async def plan(database: Database, statement: Statement) -> str:
    from dataclasses import replace

    query = statement.query
    explained = replace(
        query,
        sqlite=f"EXPLAIN QUERY PLAN {query.sqlite}",
        postgres=f"EXPLAIN {query.postgres}",
        answers=True,
    )

    def work() -> Step[str]:
        rows = yield Statement(explained, statement.params)
        return "\n".join(str(row[-1]) for row in rows)

    return await database.write(work)


async def test_no_statement_reads_more_keys_than_it_is_about(crowded: Database, clock: ManualClock) -> None:
    now = clock.now()
    digests = [f"{n:064x}" for n in range(100)]
    for statement in (
        queries.hold(digests=digests),
        queries.extend(rows=[(digest, "l", now, now) for digest in digests]),
        queries.mark(rows=[(digest, "l", None) for digest in digests], now=now),
        queries.release(rows=[(digest, "l") for digest in digests]),
        queries.look(digest=digests[0]),
        queries.remove_processed(before=now, limit=100),
        queries.remove_abandoned(before=now, limit=100),
    ):
        found = await plan(crowded, statement)
        assert "Seq Scan on inbox" not in found, (statement.query.name, found)
        assert "SCAN inbox" not in found.replace("SCAN inbox USING", ""), (statement.query.name, found)
        index = {"remove_processed": "idx_inbox_processed", "remove_abandoned": "idx_inbox_open"}
        assert index.get(statement.query.name, "") in found, (statement.query.name, found)
