"""The same writes without Pillarbox: one thread, the driver, and plain SQL; what the database itself can do here."""

from __future__ import annotations

import time
from collections.abc import Callable

import apsw
import psycopg

_TABLE = """CREATE TABLE raw (id {identity} PRIMARY KEY, session_id TEXT NOT NULL, seq BIGINT NOT NULL, origin TEXT NOT NULL,
            content TEXT NOT NULL, status TEXT NOT NULL, source_message_id TEXT, created_at TEXT NOT NULL)"""
# The same row under the same keys: its place in the session, and the source id that makes a repetition harmless.
_KEYS = (
    "CREATE UNIQUE INDEX raw_order ON raw (session_id, seq)",
    "CREATE UNIQUE INDEX raw_source ON raw (origin, source_message_id) WHERE source_message_id IS NOT NULL",
)
_COLUMNS = "session_id, seq, origin, content, status, source_message_id, created_at"


def rows(first: int, count: int) -> list[tuple[object, ...]]:
    return [
        (f"s{n % 1000}", n, "bench", "hello world", "pending", f"x{n}", "2026-01-01T00:00:00.000000Z")
        for n in range(first, first + count)
    ]


class RawSqlite:
    def __init__(self, url: str) -> None:
        self._connection = apsw.Connection(url.removeprefix("sqlite:///"))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "full")
        self._connection.execute(_TABLE.format(identity="INTEGER"))
        for key in _KEYS:
            self._connection.execute(key)

    def close(self) -> None:
        self._connection.close()

    def insert(self, batch: list[tuple[object, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(f"INSERT INTO raw ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", batch)
        self._connection.execute("COMMIT")

    def claim_and_settle(self, count: int) -> int:
        taken = list(
            self._connection.execute(
                "UPDATE raw SET status = 'processing' WHERE id IN (SELECT id FROM raw WHERE status = 'pending' "
                "ORDER BY id LIMIT ?) RETURNING id",
                (count,),
            )
        )
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("DELETE FROM raw WHERE id = ?", taken)
        self._connection.execute("COMMIT")
        return len(taken)


class RawPostgres:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._connection.execute(_TABLE.format(identity="BIGINT GENERATED ALWAYS AS IDENTITY").encode())
        self._connection.execute("CREATE INDEX ON raw (id) WHERE status = 'pending'")
        for key in _KEYS:
            self._connection.execute(key.encode())

    def close(self) -> None:
        self._connection.close()

    def insert(self, batch: list[tuple[object, ...]]) -> None:
        columns = [list(column) for column in zip(*batch, strict=True)]
        self._connection.execute(
            f"INSERT INTO raw ({_COLUMNS}) SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], "
            "%s::text[], %s::text[], %s::text[])",
            columns,
        )

    def claim_and_settle(self, count: int) -> int:
        taken = self._connection.execute(
            "UPDATE raw SET status = 'processing' WHERE id = ANY(ARRAY(SELECT id FROM raw WHERE status = 'pending' "
            "ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id",
            (count,),
        ).fetchall()
        self._connection.execute("DELETE FROM raw WHERE id = ANY(%s)", ([row[0] for row in taken],))
        return len(taken)


Raw = RawSqlite | RawPostgres


def open_raw(url: str) -> Raw:
    return RawSqlite(url) if url.startswith("sqlite") else RawPostgres(url)


def rate(count: int, work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def insert_rate(raw: Raw, count: int, batch: int) -> float:
    start = batch * 1_000_000
    data = [rows(start + first, batch) for first in range(0, count, batch)]

    def work() -> None:
        for each in data:
            raw.insert(each)

    return rate(count, work)


def drain_rate(raw: Raw, count: int, batch: int) -> float:
    raw.insert(rows(200_000_000 + batch * 1_000_000, count))

    def work() -> None:
        done = 0
        while done < count:
            done += raw.claim_and_settle(batch)

    return rate(count, work)
