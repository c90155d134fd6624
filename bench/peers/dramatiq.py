"""Dramatiq on Redis: a process of eight threads, which is its default."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.producer import BlockingProducer
from bench.peers.stamps import handle

AT_ONCE = 8


def opened(url: str) -> tuple[RedisBroker, Any]:
    broker = RedisBroker(url=url)
    dramatiq.set_broker(broker)

    def send(text: str) -> None:
        handle(text)

    return broker, dramatiq.actor(send, actor_name="send", broker=broker)


@contextmanager
def producer(url: str) -> Iterator[BlockingProducer]:
    _, send = opened(url)
    yield BlockingProducer(one=send.send)


def work(url: str) -> None:
    broker, _ = opened(url)
    dramatiq.Worker(broker, worker_threads=AT_ONCE).start()
    threading.Event().wait()
