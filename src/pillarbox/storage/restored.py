"""A PostgreSQL database that its own tools have restored: what it will deliver, and what the one before it knows better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import IsolationLevel, errors

from pillarbox.errors import InvalidInput, Unavailable
from pillarbox.storage.arrays import parameters
from pillarbox.storage.database import Statement
from pillarbox.storage.dump import require_postgres, without_password
from pillarbox.storage.postgres_url import PostgresAddress, unreachable
from pillarbox.storage.queries import Query, load_queries
from pillarbox.storage.restore import WAITING, Plan, Restored, Waiting
from pillarbox.storage.since_backup import Since, TakenOver
from pillarbox.storage.values import instant_text

_queries = load_queries("pillarbox.storage", "restored.sql")
_ENDED = (
    (_queries.open_inbound, _queries.ended_inbound),
    (_queries.open_hooks, _queries.ended_hooks),
    (_queries.open_outbound, _queries.ended_outbound),
)
_KNOWN = (
    (_queries.all_inbound, _queries.known_inbound),
    (_queries.all_hooks, _queries.known_hooks),
    (_queries.all_outbound, _queries.known_outbound),
)
_AT_ONCE = 5000
_CONNECT_SECONDS = 5

Connection = psycopg.Connection[tuple[Any, ...]]


def look_at_restored(url: str, old: str | None) -> Plan:
    """What a restored database will deliver, and what the old one knows better; changes neither."""
    require_postgres("database", url)
    with _opened(url) as new:
        waiting = tuple(_waiting(new))
        since = None
        if old is not None:
            _require_another(url, old)
            with _opened(old, reading=True) as before:
                since = _compare(new, before)
        new.rollback()
    return Plan(None, _shown(url), waiting, since, unreadable=False)


def take_over_from(old: str, url: str) -> Restored:
    """Write into a restored database what was said in the old one since: opt-outs, who was forgotten, what was revoked."""
    _require_another(url, old)
    with _opened(url) as new, _opened(old, reading=True) as before:
        taken = _take_over(new, before, other_key=_other_key(new, before))
        new.commit()
    return Restored(_shown(old), None, taken)


def _compare(new: Connection, old: Connection) -> Since:
    taken = _take_over(new, old, other_key=False)
    # Only counted: whoever looks changes nothing.
    new.rollback()
    return Since(
        ended=sum(_found(new, read, old, count)[0] for read, count in _ENDED),
        missing=sum(_unknown(new, old, *each) for each in _KNOWN),
        opt_outs=taken.opt_outs,
        other_key=_other_key(new, old),
        forgotten=taken.forgotten,
        revoked_keys=taken.revoked_keys,
        revoked_links=taken.revoked_links,
        inbox_keys=_unknown(new, old, _queries.all_inbox_keys, _queries.known_inbox_keys),
        idempotency_keys=_unknown(new, old, _queries.all_idempotency_keys, _queries.known_idempotency_keys),
    )


def _take_over(new: Connection, old: Connection, *, other_key: bool) -> TakenOver:
    kept = forgotten = keys_revoked = links_revoked = 0
    if not other_key:
        for rows in _stretches(old, _queries.said_opt_outs):
            kept += len(_run(new, _queries.keep_opt_outs(rows=rows)))
        for (key_id,) in _run(old, _queries.sealing_key()):
            new.execute(*_sent(_queries.keep_sealing_key(key_id=key_id)))
    for rows in _stretches(old, _queries.forgotten_opt_outs):
        new.execute(*_sent(_queries.forget_opt_outs(keys=[opt_out_id for opt_out_id, *_ in rows])))
        new.execute(*_sent(_queries.forget_opt_outs_said_anew(rows=rows)))
    for rows in _stretches(old, _queries.forgotten_messages):
        if keys := _single(_run(new, _queries.forget_messages(keys=_single(rows)))):
            forgotten += len(keys)
            for forget in (_queries.forget_attempts, _queries.forget_events, _queries.forget_copies):
                new.execute(*_sent(forget(keys=keys)))
    for rows in _stretches(old, _queries.revoked_keys):
        keys_revoked += len(_run(new, _queries.revoke_keys(rows=rows)))
    for rows in _stretches(old, _queries.revoked_links):
        links_revoked += len(_run(new, _queries.revoke_links(rows=rows)))
    return TakenOver(kept, other_key, forgotten, keys_revoked, links_revoked, complete=True)


def _other_key(new: Connection, old: Connection) -> bool:
    keys = [_run(each, _queries.sealing_key()) for each in (new, old)]
    return all(keys) and keys[0] != keys[1]


def _unknown(new: Connection, old: Connection, read: Query, count: Query) -> int:
    found, read_in_all = _found(old, read, new, count)
    return read_in_all - found


def _found(reader: Connection, read: Query, asked: Connection, count: Query) -> tuple[int, int]:
    """How many of one database's rows the other finds, and how many there are."""
    found = total = 0
    for rows in _stretches(reader, read):
        statement = count(rows=rows) if count.sets else count(keys=_single(rows))
        ((number,),) = _run(asked, statement)
        found, total = found + number, total + len(rows)
    return found, total


def _stretches(connection: Connection, read: Query) -> Iterator[list[tuple[Any, ...]]]:
    with connection.cursor(name="pillarbox_stretches") as cursor:
        cursor.execute(read.postgres.encode())
        while rows := cursor.fetchmany(_AT_ONCE):
            yield rows


def _single(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    return [key for (key,) in rows]


def _run(connection: Connection, statement: Statement) -> list[tuple[Any, ...]]:
    return connection.execute(*_sent(statement)).fetchall()


def _sent(statement: Statement) -> tuple[bytes, dict[str, Any]]:
    return statement.query.postgres.encode(), parameters(statement)


def _waiting(new: Connection) -> Iterator[Waiting]:
    for pipe, query in WAITING.items():
        for state, count, oldest, newest in _run(new, query()):
            yield Waiting(pipe, state, count, instant_text(oldest), instant_text(newest))


def _require_another(url: str, old: str) -> None:
    require_postgres("old", old)
    if _shown(url) == _shown(old):
        raise InvalidInput("old", "is the restored database itself; name the one that it takes the place of.")


def _shown(url: str) -> str:
    return without_password(PostgresAddress.parse(url).conninfo)[0]


@contextmanager
def _opened(url: str, *, reading: bool = False) -> Iterator[Connection]:
    """A connection in one transaction that sees one state of the database."""
    address = PostgresAddress.parse(url)
    try:
        opened = psycopg.connect(address.conninfo, connect_timeout=_CONNECT_SECONDS, prepare_threshold=None)
    except psycopg.OperationalError as error:
        raise unreachable(address) from error
    try:
        with opened as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = reading
            yield connection
    except errors.UndefinedTable as error:
        raise Unavailable(
            "One of the databases has no tables of this Pillarbox; run `pillarbox migrate` on it first."
        ) from error
    except psycopg.OperationalError as error:
        # Either of two databases; what the server says may name somebody.
        raise Unavailable(f"PostgreSQL did not finish ({type(error).__name__}); mend that and try again.") from error
