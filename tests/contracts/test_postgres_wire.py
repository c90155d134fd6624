"""Speaking to PostgreSQL directly: many statements at once, whatever becomes of one of them."""

import gc
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import errors

from pillarbox.storage import postgres_wire
from pillarbox.storage.postgres_wire import Said, Wire, WiredConnection, numbered

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ADD: Said = (b"INSERT INTO note (id) VALUES (%(id)s)", {"id": 1})


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as opened:
        opened.execute("CREATE TABLE note (id BIGINT PRIMARY KEY)")
        yield opened


@pytest.fixture
def wire(connection: psycopg.Connection) -> Wire:
    return Wire(connection, prepares=True)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said aside is heard out, however busy the machine."""
    monkeypatch.setattr(postgres_wire, "_LONGEST_ASIDE", 30.0)


def said(sql: str, /, **params: object) -> Said:
    return sql.encode(), params


def test_parameters_get_numbers_and_percent_signs_stay() -> None:
    text = b"SELECT %(a)s, %(b)s, %(a)s LIKE '%%x'"
    assert numbered(text) == (b"SELECT $1, $2, $1 LIKE '%x'", ("a", "b"))


def test_each_statement_is_answered_with_its_own_rows(wire: Wire) -> None:
    with wire.speaking():
        answers = wire.ask(
            [
                said("BEGIN"),
                said("SELECT %(at)s::timestamptz, %(text)s::text, %(none)s::bigint", at=NOW, text="ü%", none=None),
                ADD,
                said("SELECT id FROM note WHERE id = ANY(%(ids)s::bigint[])", ids="{1,2}"),
                said("COMMIT"),
            ]
        )
    assert answers == [[], [(NOW, "ü%", None)], [], [(1,)], []]


def test_the_same_statement_is_prepared_once(wire: Wire, connection: psycopg.Connection) -> None:
    for number in range(3):
        with wire.speaking():
            assert wire.ask([said("SELECT %(n)s::int4", n=number)]) == [[(number,)]]
    prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert prepared == (1,)


def test_what_fails_ends_what_is_behind_it_and_the_connection_goes_on(
    wire: Wire, connection: psycopg.Connection
) -> None:
    look = said("SELECT count(*) FROM note WHERE id > %(n)s", n=0)
    for _ in range(3):
        with wire.speaking(), pytest.raises(errors.DivisionByZero):
            wire.ask([said("BEGIN"), ADD, said("SELECT 1 / %(n)s::int4", n=0), look, said("COMMIT")])
        connection.execute("ROLLBACK")
        with wire.speaking():
            assert wire.ask([look]) == [[(0,)]]


def test_a_table_that_was_changed_is_looked_at_anew(wire: Wire, connection: psycopg.Connection) -> None:
    look = said("SELECT * FROM note WHERE id > %(n)s", n=0)
    with wire.speaking():
        wire.ask([look])
    connection.execute("ALTER TABLE note ADD COLUMN body TEXT DEFAULT 'x'")
    with wire.speaking(), pytest.raises(errors.FeatureNotSupported):
        wire.ask([look])
    with wire.speaking():
        assert wire.ask([ADD, look]) == [[], [(1, "x")]]


def test_no_more_is_kept_prepared_than_a_few_hundred(wire: Wire, connection: psycopg.Connection) -> None:
    for number in range(600):
        with wire.speaking():
            wire.ask([said(f"SELECT %(n)s::int8 + {number}", n=1)])
    found = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert found
    assert found[0] <= 300


def test_megabytes_go_both_ways(wire: Wire) -> None:
    text = "x" * 20_000_000
    with wire.speaking():
        ((found,),), ((length,),) = wire.ask([said("SELECT %(t)s::text", t=text), said("SELECT length(%(t)s)", t=text)])
    assert found == text
    assert length == len(text)


@pytest.mark.usefixtures("patience")
def test_what_is_said_aside_happens_behind_the_commit(wire: Wire, connection: psycopg.Connection) -> None:
    with wire.speaking():
        wire.ask([said("BEGIN"), ADD, said("COMMIT")], aside=said("INSERT INTO note (id) VALUES (%(id)s)", id=2))
    assert connection.execute("SELECT id FROM note ORDER BY id").fetchall() == [(1,), (2,)]


@pytest.mark.usefixtures("patience")
def test_what_fails_aside_takes_nothing_back(wire: Wire, connection: psycopg.Connection) -> None:
    for number in (1, 2):
        with wire.speaking():
            wire.ask(
                [said("BEGIN"), said("INSERT INTO note (id) VALUES (%(id)s)", id=number), said("COMMIT")],
                aside=said("SELECT 1 / %(n)s::int4", n=0),
            )
    assert connection.execute("SELECT id FROM note ORDER BY id").fetchall() == [(1,), (2,)]


def test_who_hangs_aside_keeps_nobody_waiting(wire: Wire, connection: psycopg.Connection) -> None:
    with wire.speaking():
        assert wire.ask([ADD, said("SELECT 5")], aside=said("SELECT pg_sleep(%(n)s)", n=60)) == [[], [(5,)]]
    assert connection.broken


def test_neither_connection_nor_rows_are_kept_when_they_are_no_longer_needed(postgres_url: str) -> None:
    connection = WiredConnection.connect(postgres_url, autocommit=True)
    wire = connection.wire(prepares=True)
    with wire.speaking():
        wire.ask([said("SELECT 1")])
    assert wire._values.pgresult is None
    assert connection.wire(prepares=True) is wire
    kept = weakref.ref(wire)
    connection.close()
    del connection, wire
    gc.collect()
    assert kept() is None


def test_a_connection_that_breaks_says_so(wire: Wire, connection: psycopg.Connection) -> None:
    with wire.speaking(), pytest.raises(psycopg.OperationalError):
        wire.ask([said("SELECT pg_terminate_backend(pg_backend_pid())")])
    assert connection.broken
