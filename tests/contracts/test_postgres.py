"""What only PostgreSQL can do to us: conflicts, deadlocks, restarts, cut connections, poolers, unsafe servers."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pillarbox.errors import DatabaseBusy, Unavailable, UnsafeDatabase
from pillarbox.storage import News, Step
from pillarbox.storage.migrate import migrate
from pillarbox.storage.postgres import PostgresDatabase
from tests.conftest import skip_or_fail
from tests.contracts import notes
from tests.contracts.notes import add, add_answering, add_last, ids, opened, queries, with_notes
from tests.servers.pgbouncer import transaction_pooler
from tests.servers.postgres import PostgresServer, ServerMissing
from tests.servers.postgres_proxy import PostgresProxy, Trouble, proxy_before

Adding = Callable[..., Step[int]]


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[PostgresProxy]:
    with proxy_before(postgres_url) as between:
        yield between


class Meeting:
    """Lets two works of a test run into each other on their first run, and pass freely when they are run again."""

    def __init__(self) -> None:
        self.runs = 0
        self._guard = threading.Lock()
        self._barrier = threading.Barrier(2)

    def __call__(self) -> None:
        with self._guard:
            self.runs += 1
            first = self.runs <= 2
        if first:
            self._barrier.wait(10)


async def test_a_serialization_conflict_is_run_again(postgres_url: str) -> None:
    meet = Meeting()

    def copy(number: int) -> Step[None]:
        total = yield queries.total()
        meet()
        yield queries.add_answering(id=number, body="x" * (1 + (total[0][0] or 0)))

    with psycopg.connect(postgres_url, autocommit=True) as admin:
        name = sql.Identifier(admin.info.dbname)
        admin.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_isolation TO serializable").format(name))
    async with with_notes(postgres_url) as database:
        await asyncio.gather(database.write(partial(copy, 1)), database.write(partial(copy, 2)))
        lengths = sorted(len(row[1]) for row in await database.read(notes.everything))
    assert lengths == [1, 2]
    assert meet.runs == 3


async def test_a_deadlock_is_run_again(postgres_url: str) -> None:
    meet = Meeting()

    def both(first: int, second: int) -> Step[None]:
        yield queries.lock(id=first)
        meet()
        yield queries.lock(id=second)
        yield queries.set_body(id=first, body="done")
        yield queries.set_body(id=second, body="done")

    async with with_notes(postgres_url) as database:
        await database.write(lambda: notes.add_set([(1, "", None), (2, "", None)]))
        await asyncio.gather(database.write(partial(both, 1, 2)), database.write(partial(both, 2, 1)))
        assert [row[1] for row in await database.read(notes.everything)] == ["done", "done"]
    assert meet.runs == 3


@pytest.mark.parametrize("adding", [add, add_answering])
async def test_a_refused_statement_is_the_callers_error_and_is_run_once(postgres_url: str, adding: Adding) -> None:
    runs = 0

    def work() -> Step[None]:
        nonlocal runs
        runs += 1
        yield from adding(1, None)

    async with with_notes(postgres_url) as database:
        with pytest.raises(psycopg.errors.NotNullViolation):
            await database.write(work)
    assert runs == 1


async def test_a_statement_that_takes_too_long_is_given_up_in_time(postgres_url: str) -> None:
    def slow() -> Step[None]:
        yield queries.sleep(seconds=30)

    def slow_without_an_answer() -> Step[None]:
        yield queries.set_body(id=1, body="never")

    async with with_notes(postgres_url) as other:
        await other.write(lambda: add(1))
        database = PostgresDatabase(postgres_url, statement_timeout=0.3)
        began = time.monotonic()
        with pytest.raises(DatabaseBusy):
            await database.write(slow)
        with psycopg.connect(postgres_url) as blocker:
            blocker.execute("SELECT * FROM note FOR UPDATE")
            with pytest.raises(DatabaseBusy):
                await database.write(slow_without_an_answer)
        assert time.monotonic() - began < 20
        await database.close()


async def test_migrating_may_take_longer_than_any_other_statement(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url, statement_timeout=0.5)
    with psycopg.connect(postgres_url) as blocker:
        blocker.execute("SELECT version FROM schema_migration WHERE version = 0 FOR UPDATE")
        migrating = asyncio.create_task(migrate(database))
        # Longer than the server lets a statement wait, and than the watchdog does.
        await asyncio.to_thread(blocker.execute, "SELECT pg_sleep(1.2)")
        blocker.rollback()
        assert await migrating == []
    await database.close()


async def test_a_table_that_another_node_changed_meanwhile_is_used_as_it_is_now(postgres_url: str) -> None:
    """What a connection has prepared may answer with other types from then on."""

    def look() -> Step[str]:
        ((body,),) = yield queries.lock(id=1)
        yield queries.set_body(id=1, body=f"{body}!")
        return str(body)

    async with with_notes(postgres_url) as database:
        await database.write(lambda: add(1))
        one = PostgresDatabase(postgres_url, pool_size=1)
        before = await one.write(look)
        with psycopg.connect(postgres_url, autocommit=True) as newer:
            newer.execute("ALTER TABLE note ALTER COLUMN body TYPE VARCHAR(100)")
        assert await one.write(look) == f"{before}!"
        await one.close()


async def test_who_only_looks_leaves_the_server_nothing_to_write(postgres_url: str) -> None:
    """An idle node looks for work again and again, in transactions that could change something."""

    def look() -> Step[None]:
        yield queries.lock(id=1)

    def write() -> Step[None]:
        yield queries.lock(id=1)
        yield queries.set_body(id=1, body="new")

    async with with_notes(postgres_url) as database:
        await database.write(lambda: add(1))
        with psycopg.connect(postgres_url, autocommit=True) as beside:

            def marks() -> list[tuple[str, str]]:
                return beside.execute("SELECT writer, serial FROM commit_mark ORDER BY writer").fetchall()

            before = marks()
            for _ in range(20):
                await database.write(look)
            assert marks() == before
            await database.write(write)
            assert marks() != before


async def test_other_nodes_hear_which_pipe_has_new_work(postgres_url: str) -> None:
    async with opened(postgres_url) as writer, opened(postgres_url) as listener:
        heard: queue.Queue[News] = queue.Queue()
        listener.watch(heard.put)
        assert await asyncio.to_thread(heard.get, timeout=10) == News()
        writer.ring("hooks")
        assert await asyncio.to_thread(heard.get, timeout=10) == News(frozenset({"hooks"}), only_work=True)
        writer.ring()
        assert await asyncio.to_thread(heard.get, timeout=10) == News()


async def test_a_busy_pool_says_so_in_time(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url, pool_size=1, busy_timeout=0.3)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> Step[None]:
        yield queries.sleep(seconds=0)
        entered.set()
        leave.wait(100)

    holding = asyncio.create_task(database.write(hold))
    await asyncio.to_thread(entered.wait)
    began = time.monotonic()
    with pytest.raises(DatabaseBusy):
        await asyncio.to_thread(database.write_blocking, lambda: add(1))
    assert time.monotonic() - began < 50
    leave.set()
    await holding
    await database.close()


@pytest.mark.parametrize("trouble", ["cut before commit", "cut after commit"])
@pytest.mark.parametrize("work", [add, add_answering, add_last])
async def test_a_connection_cut_at_commit_leaves_exactly_one_row(
    proxy: PostgresProxy, trouble: Trouble, work: Adding
) -> None:
    async with with_notes(proxy.url) as database:
        for number in range(5):
            proxy.at_next_commit(trouble)
            assert await database.write(partial(work, number)) == number
            assert proxy.happened.is_set()
        assert await ids(database) == list(range(5))


async def test_the_first_commit_of_a_new_thread_is_found_again_too(proxy: PostgresProxy) -> None:
    """Its mark is an insert that nobody else can see until it commits."""
    async with with_notes(proxy.url) as database:
        for number in range(5):
            proxy.at_next_commit("cut after commit")
            thread = threading.Thread(target=database.write_blocking, args=(partial(add, number),))
            thread.start()
            await asyncio.to_thread(thread.join)
        assert await ids(database) == list(range(5))


async def test_a_transaction_that_was_given_up_can_not_commit_later(postgres_url: str) -> None:
    """A COMMIT may still lie in a buffer when we look whether it took effect; the look settles it for good."""
    from pillarbox.storage import postgres_marks

    async with with_notes(postgres_url):
        with psycopg.connect(postgres_url, autocommit=True) as late, psycopg.connect(postgres_url) as looking:
            late.execute("BEGIN")
            looking.execute(postgres_marks.LOOK, ("writer", "serial"))
            looking.commit()
            with pytest.raises(psycopg.errors.NotNullViolation):
                late.execute(postgres_marks.MARK, {"writer": "writer", "serial": "serial"})


async def test_many_writers_over_cut_connections_lose_and_double_nothing(proxy: PostgresProxy) -> None:
    async with with_notes(proxy.url) as database:
        writes = [asyncio.create_task(database.write(partial(add_answering, number))) for number in range(300)]
        for _ in range(5):
            await asyncio.sleep(0.05)
            proxy.cut_all()
        assert await asyncio.gather(*writes) == list(range(300))
        assert await ids(database) == list(range(300))


async def test_a_server_that_stops_answering_is_given_up_in_time(proxy: PostgresProxy) -> None:
    async with with_notes(proxy.url):
        database = PostgresDatabase(proxy.url, statement_timeout=1, busy_timeout=1)
        await database.write(lambda: add(1))
        proxy.black_hole()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(database.write(lambda: add_answering(2)), 60)
        proxy.recover()
        proxy.cut_all()
        try:
            assert await _written_at_last(database, 3) == 3
        finally:
            await database.close()


async def _written_at_last(database: PostgresDatabase, number: int) -> int:
    """Try as callers are told to, until a connection is there again."""
    async with asyncio.timeout(30):
        while True:
            with suppress(Unavailable):
                return await database.write(lambda: add_answering(number))


async def test_a_commit_that_nobody_hears_of_is_given_up_in_time(proxy: PostgresProxy) -> None:
    async with with_notes(proxy.url) as other:
        database = PostgresDatabase(proxy.url, statement_timeout=1, busy_timeout=5)
        proxy.at_next_commit("swallow commit")
        assert await asyncio.wait_for(database.write(lambda: add_answering(1)), 15) == 1
        assert await ids(other) == [1]
        await database.close()


async def test_a_crash_of_the_server_is_survived(private_postgres: PostgresServer) -> None:
    async with with_notes(private_postgres.url) as database:
        await asyncio.gather(*(database.write(partial(add, number)) for number in range(20)))
        await asyncio.to_thread(private_postgres.restart, "immediate")
        assert await database.write(lambda: add(100)) == 100
        await asyncio.gather(*(database.write(partial(add, number)) for number in range(20, 40)))
        assert await ids(database) == [*range(40), 100]


@pytest.mark.slow
async def test_a_server_that_was_away_for_long_is_found_soon_after_its_return(private_postgres: PostgresServer) -> None:
    async with with_notes(private_postgres.url) as other:
        database = PostgresDatabase(private_postgres.url, busy_timeout=1)
        await asyncio.to_thread(private_postgres.stop, "immediate")
        ends = time.monotonic() + 12
        while time.monotonic() < ends:
            with pytest.raises(Unavailable):
                await database.write(lambda: add(1))
        await asyncio.to_thread(private_postgres.start)
        began = time.monotonic()
        while True:
            try:
                await database.write(lambda: add(2))
                break
            except Unavailable:
                assert time.monotonic() - began < 10
        assert await ids(other) == [2]
        await database.close()


async def test_through_a_transaction_pooler_everything_works(postgres_url: str, scratch: Path) -> None:
    directory = scratch / "pgbouncer"
    directory.mkdir()
    try:
        with transaction_pooler(postgres_url, directory) as url:
            async with with_notes(url) as database:
                answers = await asyncio.gather(*(database.write(partial(add_answering, n)) for n in range(200)))
                assert answers == list(range(200))
                for beginning in range(200, 1000, 100):
                    # More clients than the pooler has servers: one that is not given back is missed at once.
                    await asyncio.gather(*(database.write(partial(add, n)) for n in range(beginning, beginning + 100)))
                assert await ids(database) == list(range(1000))
                with pytest.raises(psycopg.IntegrityError):
                    await database.write(lambda: add(0))
                database.watch(lambda news: None)
                database.ring()
                await database.tend()
    except ServerMissing as missing:
        skip_or_fail(missing)


async def test_a_time_zone_of_the_environment_is_no_reason_to_refuse(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    async with with_notes(postgres_url) as database:
        await database.write(lambda: add(1))
        assert await ids(database) == [1]


async def test_a_pooler_that_the_url_does_not_name_is_said_so(postgres_url: str, scratch: Path) -> None:
    directory = scratch / "pgbouncer-unnamed"
    directory.mkdir()
    try:
        unnamed = pytest.raises(UnsafeDatabase, match="add `pooler=transaction`")
        with transaction_pooler(postgres_url, directory) as url, unnamed:
            PostgresDatabase(url.partition("?")[0])
    except ServerMissing as missing:
        skip_or_fail(missing)


@pytest.mark.parametrize("stopped_after", ["an answer", "what answers nothing", "everything but the commit"])
async def test_who_is_stopped_in_the_middle_of_a_transaction_holds_its_locks_for_seconds_only(
    postgres_url: str, stopped_after: str
) -> None:
    """Stopped before anything that was sent could go on, as by SIGSTOP; when it does go on, all of it is run again."""
    stopped, goes_on = threading.Event(), threading.Event()
    runs = 0

    def work() -> Step[str]:
        nonlocal runs
        runs += 1
        yield queries.lock(id=1)
        if stopped_after == "what answers nothing":
            yield queries.set_body(id=1, body="begun")
        elif stopped_after == "everything but the commit":
            yield queries.set_body(id=1, body="done")
            yield queries.total()
        stopped.set()
        assert goes_on.wait(30)
        if stopped_after != "everything but the commit":
            yield queries.set_body(id=1, body="done")
        return "done"

    database = PostgresDatabase(postgres_url, statement_timeout=3.0)
    try:
        await database.write(notes.create)
        await database.write(lambda: add(1))
        working = asyncio.create_task(database.write(work))
        assert await asyncio.to_thread(stopped.wait, 30)
        async with await psycopg.AsyncConnection.connect(postgres_url) as other:
            await other.execute("SET lock_timeout = '25s'")
            found = await (await other.execute("SELECT body FROM note WHERE id = 1 FOR UPDATE")).fetchone()
            assert found == ("a",)
        goes_on.set()
        assert await working == "done"
        assert runs == 2
        with psycopg.connect(postgres_url) as admin:
            assert admin.execute("SELECT body FROM note WHERE id = 1").fetchone() == ("done",)
    finally:
        goes_on.set()
        await database.close()


async def test_who_is_stopped_while_it_reads_reads_again(postgres_url: str) -> None:
    stopped, goes_on = threading.Event(), threading.Event()
    runs = 0

    def work() -> Step[int]:
        nonlocal runs
        runs += 1
        yield queries.total()
        stopped.set()
        assert goes_on.wait(30)
        return len((yield queries.all()))

    database = PostgresDatabase(postgres_url, statement_timeout=3.0)
    try:
        await database.write(notes.create)
        reading = asyncio.create_task(database.read(work))
        assert await asyncio.to_thread(stopped.wait, 30)
        async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as admin:
            idle = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
            while await (await admin.execute(idle)).fetchone():
                pass
        goes_on.set()
        assert await reading == 0
        assert runs == 2
    finally:
        goes_on.set()
        await database.close()


async def test_commits_wait_for_the_disk_whatever_the_server_says(private_postgres: PostgresServer) -> None:
    def settings() -> Step[str]:
        return str((yield show())[0][0])

    with psycopg.connect(private_postgres.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET synchronous_commit = off")
        admin.execute("SELECT pg_reload_conf()")
    show = notes.query("SHOW synchronous_commit")
    for suffix in ("", "?pooler=transaction"):
        async with notes.opened(private_postgres.url + suffix) as database:
            assert await database.write(settings) == "on"


async def test_a_server_that_does_not_write_to_disk_is_refused(private_postgres: PostgresServer) -> None:
    with psycopg.connect(private_postgres.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")
    await _until_refused(private_postgres.url, "fsync=off")


async def test_a_replica_is_refused(private_postgres: PostgresServer) -> None:
    await asyncio.to_thread(private_postgres.stop)
    (private_postgres.data / "standby.signal").touch(mode=0o644)
    await asyncio.to_thread(private_postgres.start)
    await _until_refused(private_postgres.url, "replica")


async def test_a_server_that_is_not_there_is_said_so() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await asyncio.to_thread(PostgresDatabase, "postgresql://nobody@127.0.0.1:1/nothing")


async def _until_refused(url: str, why: str) -> None:
    """A reloaded setting takes a moment to reach new connections."""
    for _ in range(50):
        try:
            database = await asyncio.to_thread(PostgresDatabase, url)
        except UnsafeDatabase as refused:
            if why in str(refused):
                return
            raise
        await database.close()
    pytest.fail("The server was not refused.")
