"""Huey on SQLite, writing with fsync."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huey import SqliteHuey

from bench.peers.producer import BlockingProducer
from bench.peers.stamps import handle

AT_ONCE = 1


def opened(url: str) -> tuple[SqliteHuey, Any]:
    queue = SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, results=False, timeout=30)

    @queue.task(name="send")
    def send(text: str) -> None:
        handle(text)

    return queue, send


@contextmanager
def producer(url: str) -> Iterator[BlockingProducer]:
    _, send = opened(url)
    yield BlockingProducer(one=send)


def work(url: str) -> None:
    queue, _ = opened(url)
    # Looks more often than it does by itself, which would be every 0.1 to 10 seconds.
    consumer = queue.create_consumer(workers=AT_ONCE, initial_delay=0.01, max_delay=0.05, periodic=False)
    consumer.start()
    threading.Event().wait()
