"""What every `Database` promises, on SQLite in memory, on an SQLite file and on PostgreSQL."""

import asyncio
import itertools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import apsw
import psycopg
import pytest

from pillarbox.errors import InvalidInput, Refused, Unavailable
from pillarbox.storage import Database, News, Row, Step, instant, together
from tests.contracts import notes
from tests.contracts.notes import add, add_answering, add_last, ids, opened, queries, with_notes
from tests.servers.daemon import SECONDS

CONSTRAINT = (apsw.ConstraintError, psycopg.IntegrityError)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with with_notes(url) as opened_database:
        yield opened_database


async def test_a_write_that_returned_is_visible_to_another_process(database_url: str) -> None:
    async with with_notes(database_url) as database:
        assert await database.write(lambda: add(1, "kept")) == 1
        if database_url.startswith("sqlite"):
            found = apsw.Connection(database_url.removeprefix("sqlite:///")).execute("SELECT body FROM note").fetchall()
        else:
            with psycopg.connect(database_url) as other:
                found = other.execute("SELECT body FROM note").fetchall()
    assert found == [("kept",)]


async def test_a_write_outlives_a_process_that_is_killed_right_after_it(database_url: str) -> None:
    async with with_notes(database_url) as database:
        program = (
            "import asyncio, os, signal, sys\n"
            "from tests.contracts import notes\n"
            "async def main():\n"
            "    async with notes.opened(sys.argv[1]) as database:\n"
            "        await database.write(lambda: notes.add(7))\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "asyncio.run(main())\n"
        )
        done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program, database_url], check=False)
        assert done.returncode == -9
        assert await ids(database) == [7]


@pytest.mark.parametrize("error", [InvalidInput("body", "no."), ValueError("a bug"), asyncio.CancelledError()])
async def test_a_work_that_raises_leaves_nothing(database: Database, error: BaseException) -> None:
    def work() -> Step[None]:
        yield from add(1)
        yield from add_answering(2)
        raise error

    with pytest.raises(type(error)):
        await database.write(work)
    assert await ids(database) == []
    await database.write(lambda: add(3))
    assert await ids(database) == [3]


async def test_a_statement_that_fails_leaves_nothing_of_its_work(database: Database) -> None:
    def work() -> Step[None]:
        yield from add(1)
        yield from add(2, None)

    with pytest.raises(CONSTRAINT):
        await database.write(work)
    assert await ids(database) == []


async def test_a_bad_row_fails_alone_among_a_hundred_concurrent_works(database: Database) -> None:
    def refused() -> Step[int]:
        yield from add(1000)
        raise Refused("no")

    works: list[Callable[[], Step[int]]] = [partial(add, number) for number in range(100)]
    works[17] = partial(add, 17, None)
    works[42] = partial(add_answering, 42, None)
    works[43] = partial(add_last, 43)
    works[44] = partial(add_last, 44, None)
    works[64] = refused
    answers = await asyncio.gather(*map(database.write, works), return_exceptions=True)
    assert isinstance(answers[17], CONSTRAINT)
    assert isinstance(answers[42], CONSTRAINT)
    assert isinstance(answers[44], CONSTRAINT)
    assert isinstance(answers[64], Refused)
    good = [number for number in range(100) if number not in (17, 42, 44, 64)]
    assert [answers[number] for number in good] == good
    assert await ids(database) == good


async def test_what_ends_a_work_is_on_disk_with_it_or_leaves_nothing(database: Database) -> None:
    def work(body: str | None) -> Step[int]:
        yield from add(1)
        return (yield from add_last(2, body))

    with pytest.raises(CONSTRAINT):
        await database.write(lambda: work(None))
    assert await ids(database) == []
    assert await database.write(lambda: work("a")) == 2
    assert [(row[0], row[1]) for row in await database.read(notes.everything)] == [(1, "a"), (2, "last")]


async def test_what_was_written_is_read_at_once(database: Database) -> None:
    for number in range(50):
        await database.write(partial(add, number))
        assert (await ids(database))[-1] == number


async def test_a_work_sees_its_own_writes(database: Database) -> None:
    def work() -> Step[list[Row]]:
        yield queries.add(id=1, body="a")
        return (yield queries.all())

    assert [row[0] for row in await database.write(work)] == [1]


async def test_concurrent_updates_of_one_row_are_all_counted(database: Database) -> None:
    def longer() -> Step[None]:
        ((body,),) = yield queries.lock(id=1)
        yield queries.set_body(id=1, body=body + "x")

    await database.write(lambda: add(1, ""))
    await asyncio.gather(*(database.write(longer) for _ in range(60)))
    assert (await database.read(notes.everything))[0][1] == "x" * 60


async def test_threads_write_and_read_without_an_event_loop(database: Database) -> None:
    def in_thread(number: int) -> int:
        database.write_blocking(lambda: add(number))
        return len(database.read_blocking(notes.everything))

    def all_threads() -> list[int]:
        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(in_thread, range(40)))

    counts = await asyncio.to_thread(all_threads)
    assert max(counts) == 40
    assert await ids(database) == list(range(40))


async def test_statements_sent_together_are_answered_in_order(database: Database) -> None:
    def work() -> Step[list[list[Row]]]:
        return (
            yield from together(
                queries.add_answering(id=1, body="a"), queries.add(id=2, body="b"), queries.among(bodies=["a", "b"])
            )
        )

    assert await database.write(work) == [[(1,)], [], [(1,), (2,)]]


async def test_nothing_sent_together_answers_nothing(database: Database) -> None:
    assert await database.write(together) == []


async def test_sets_select_what_is_in_them(database: Database) -> None:
    await database.write(lambda: notes.add_set([(1, "a", None), (2, "b", None), (3, "", None)]))

    def among(bodies: list[str]) -> Step[list[int]]:
        return [row[0] for row in (yield queries.among(bodies=bodies))]

    def not_among(bodies: list[str]) -> Step[list[int]]:
        return [row[0] for row in (yield queries.not_among(bodies=bodies))]

    assert await database.read(lambda: among(["a", ""])) == [1, 3]
    assert await database.read(lambda: not_among(["a", ""])) == [2]
    assert await database.read(lambda: among([])) == []
    assert await database.read(lambda: not_among([])) == [1, 2, 3]


async def test_an_empty_set_inserts_nothing(database: Database) -> None:
    await database.write(lambda: notes.add_set([]))
    assert await ids(database) == []


async def test_ten_thousand_rows_travel_as_one_set(database: Database) -> None:
    await database.write(lambda: notes.add_set([(number, "x" * 100, None) for number in range(10_000)]))
    assert await ids(database) == list(range(10_000))


async def test_values_in_sets_come_back_as_they_were(database: Database) -> None:
    text = "naïve \U0001f4ee \"quoted\" {braces} \\back\\ 'single' %s :name\n\ttab, NULL ﷽ a\u0301"
    at = datetime(2026, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    rows = [
        (1, text, at),
        (-(2**63), "", at + timedelta(microseconds=1)),
        (2**63 - 1, "null", None),
        (None, None, None),
        (0, "123", at.astimezone(timezone(timedelta(hours=5, minutes=30)))),
    ]

    def echo() -> Step[list[Row]]:
        return (yield queries.echo(rows=rows))

    found = [(a, b, None if c is None else instant(c)) for a, b, c in await database.read(echo)]
    assert found == rows


async def test_instants_keep_their_microseconds_and_sort_as_time(database: Database) -> None:
    start = datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    instants = [start + timedelta(microseconds=step) for step in (-999999, -1, 0, 1, 2)]
    await database.write(lambda: notes.add_set([(number, "", at) for number, at in enumerate(instants)]))
    assert [instant(row[2]) for row in await database.read(notes.everything)] == instants


async def test_a_set_of_nulls_alone_has_the_columns_type(database: Database) -> None:
    def echo() -> Step[list[Row]]:
        return (yield queries.echo(rows=[(None, None, None), (None, None, None)]))

    assert await database.read(echo) == [(None, None, None)] * 2


async def test_others_hear_that_something_was_committed(database_url: str) -> None:
    async with with_notes(database_url) as writer, opened(database_url) as listener:
        heard = threading.Event()
        listener.watch(lambda news: heard.set())
        await heard_settled(heard)
        await writer.write(lambda: add(1))
        writer.ring()
        assert await asyncio.to_thread(heard.wait, 5)


async def heard_settled(heard: threading.Event) -> None:
    """A listener may ring once when it begins to listen; wait for that, then forget it."""
    await asyncio.to_thread(heard.wait, 0.5)
    heard.clear()


async def test_a_listener_that_raises_harms_nobody(database_url: str) -> None:
    async with with_notes(database_url) as writer, opened(database_url) as listener:
        called = threading.Event()

        def broken(news: News) -> None:
            called.set()
            raise RuntimeError("Event loop is closed")

        listener.watch(broken)
        await heard_settled(called)
        for number in (1, 2):
            called.clear()
            await writer.write(partial(add, number))
            writer.ring()
            assert await asyncio.to_thread(called.wait, 5)
        await listener.write(lambda: add(3))


async def test_closing_commits_what_was_queued(database_url: str) -> None:
    async with with_notes(database_url) as database:
        async with opened(database_url) as closing:
            writes = [asyncio.create_task(closing.write(partial(add, number))) for number in range(50)]
            await asyncio.sleep(0)
        assert await asyncio.gather(*writes) == list(range(50))
        assert await ids(database) == list(range(50))


async def test_a_closed_database_refuses_at_once(url: str) -> None:
    async with with_notes(url) as database:
        pass
    with pytest.raises(Unavailable, match="closed"):
        await database.write(lambda: add(1))
    with pytest.raises(Unavailable, match="closed"):
        await database.read(notes.everything)
    with pytest.raises(Unavailable, match="closed"):
        await asyncio.wait_for(asyncio.to_thread(database.write_blocking, lambda: add(1)), 1)
    await database.close()


async def test_no_write_is_left_waiting_by_a_close(url: str) -> None:
    """Threads that write while the database closes are all answered, committed or refused."""
    numbers, answers, begun = itertools.count(), [], threading.Event()
    async with with_notes(url) as database:

        def write_on() -> None:
            try:
                while True:
                    database.write_blocking(partial(add, next(numbers)))
                    begun.set()
            except Unavailable as error:
                answers.append(str(error))

        threads = [threading.Thread(target=write_on, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert await asyncio.to_thread(begun.wait, 5)
    for thread in threads:
        await asyncio.to_thread(thread.join, 5)
    assert answers == ["The database is closed."] * 8


async def test_a_cancelled_caller_leaves_all_or_nothing_and_harms_nobody(database: Database) -> None:
    def pair(number: int) -> Step[None]:
        yield from add_answering(number)
        yield from add_answering(number + 1000)

    writes = [asyncio.create_task(database.write(partial(pair, number))) for number in range(60)]
    await asyncio.sleep(0)
    for write in writes[::2]:
        write.cancel()
    answers = await asyncio.gather(*writes, return_exceptions=True)
    assert answers[1::2] == [None] * 30
    found = set(await ids(database))
    assert {number + 1000 for number in found if number < 1000} == {number for number in found if number >= 1000}
    assert set(range(1, 60, 2)) <= found


async def test_a_read_writes_nothing_on_a_file(sqlite_url: str) -> None:
    async with with_notes(sqlite_url) as database:
        with pytest.raises(Unavailable):
            await database.read(lambda: add(1))
        assert await ids(database) == []


async def test_five_processes_open_a_new_database_at_once(database_url: str, tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from tests.contracts import notes\n"
        "async def main():\n"
        "    async with notes.opened(sys.argv[1]) as database:\n"
        "        await database.tend()\n"
        "asyncio.run(main())\n"
    )
    processes = [notes.start(program, database_url) for _ in range(5)]
    errors = [(await asyncio.to_thread(process.communicate))[1] for process in processes]
    assert errors == [b""] * 5


def test_a_forked_child_is_told_that_it_cannot_use_the_database(url: str) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from pillarbox.errors import PillarboxError\n"
        "from tests.contracts import notes\n"
        "async def use(database):\n"
        "    for use in (database.write, database.write_new, database.read):\n"
        "        try:\n"
        "            await use(lambda: notes.add(1))\n"
        "        except PillarboxError as error:\n"
        "            print(error, flush=True)\n"
        "async def main():\n"
        "    async with notes.with_notes(sys.argv[1]) as database:\n"
        "        child = os.fork()\n"
        "        if child == 0:\n"
        "            try:\n"
        "                asyncio.run(asyncio.wait_for(use(database), 10))\n"
        "            finally:\n"
        "                os._exit(0)\n"
        "        os.waitpid(child, 0)\n"
        "        await database.write(lambda: notes.add(2))\n"
        "        print(await notes.ids(database))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    *told, found = done.stdout.splitlines()
    assert (["open one after the fork" in line for line in told], found) == ([True] * 3, "[2]")
