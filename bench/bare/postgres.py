"""One statement that stores a job and notifies, and one that claims it, each with a commit of its own."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from bench.peers.producer import BlockingProducer
from bench.peers.stamps import handle

_TABLE = """CREATE TABLE IF NOT EXISTS job (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body TEXT NOT NULL,
            claimed BOOLEAN NOT NULL DEFAULT false)"""
_STORE = (
    "WITH stored AS (INSERT INTO job (body) VALUES (%s) RETURNING id) SELECT pg_notify('bare', id::text) FROM stored"
)
_CLAIM = """UPDATE job SET claimed = true
            WHERE id = (SELECT id FROM job WHERE NOT claimed ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING body"""


def opened(url: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(url, autocommit=True)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(1)")
        connection.execute(_TABLE)
        connection.execute("CREATE INDEX IF NOT EXISTS job_open ON job (id) WHERE NOT claimed")
    return connection


@contextmanager
def producer(url: str) -> Iterator[BlockingProducer]:
    with opened(url) as connection:
        yield BlockingProducer(one=lambda text: connection.execute(_STORE, [text], prepare=True))


def work(url: str) -> None:
    with opened(url) as connection, psycopg.connect(url, autocommit=True) as listening:
        listening.execute("LISTEN bare")
        while True:
            for (text,) in connection.execute(_CLAIM, prepare=True).fetchall():
                handle(text)
            select.select([listening.fileno()], [], [], 1)
            list(listening.notifies(timeout=0))
