"""One commit that stores a job, a datagram to the other process, and one commit that claims it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from bench.peers.producer import BlockingProducer
from bench.peers.stamps import handle

_TABLE = (
    "CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, body TEXT NOT NULL, claimed INTEGER NOT NULL DEFAULT 0)"
)
_OPEN = "CREATE INDEX IF NOT EXISTS job_open ON job (id) WHERE claimed = 0"
_CLAIM = (
    "UPDATE job SET claimed = 1 WHERE id = (SELECT id FROM job WHERE claimed = 0 ORDER BY id LIMIT 1) RETURNING body"
)


def opened(url: str) -> tuple[apsw.Connection, str]:
    path = url.removeprefix("sqlite:///")
    connection = apsw.Connection(path)
    connection.set_busy_timeout(10_000)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute(_TABLE)
    connection.execute(_OPEN)
    return connection, f"{path}.bell"


@contextmanager
def producer(url: str) -> Iterator[BlockingProducer]:
    connection, bell = opened(url)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ringing:

        def one(text: str) -> None:
            connection.execute("INSERT INTO job (body) VALUES (?)", (text,))
            with suppress(OSError):
                ringing.sendto(b"!", bell)

        yield BlockingProducer(one=one)


def work(url: str) -> None:
    connection, bell = opened(url)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rung:
        rung.bind(bell)
        rung.settimeout(1)
        while True:
            for (text,) in list(connection.execute(_CLAIM)):
                handle(text)
            with suppress(TimeoutError):
                rung.recv(1)
