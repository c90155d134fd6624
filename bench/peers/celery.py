"""Celery on Redis or RabbitMQ, acknowledging a task when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from bench.peers.producer import CALLERS, BlockingProducer
from bench.peers.stamps import handle

AT_ONCE = 1
FETCHED = 64


def opened(url: str) -> tuple[Celery, Any]:
    app = Celery("bench", broker=url)
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=FETCHED,
        broker_pool_limit=CALLERS,
        broker_connection_retry_on_startup=True,
    )

    @app.task(name="send")
    def send(text: str) -> None:
        handle(text)

    return app, send


@contextmanager
def producer(url: str) -> Iterator[BlockingProducer]:
    _, send = opened(url)
    yield BlockingProducer(one=send.delay)


def work(url: str) -> None:
    app, _ = opened(url)
    quiet = ["--without-gossip", "--without-mingle", "--loglevel=CRITICAL"]
    app.worker_main(["worker", "--pool=prefork", f"--concurrency={AT_ONCE}", *quiet])
