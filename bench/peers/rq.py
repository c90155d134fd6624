"""RQ on Redis, with the worker that does not fork for each job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from rq import Queue, SimpleWorker

from bench.peers.producer import BlockingProducer

# All that its worker can.
AT_ONCE = 1
JOB = "bench.peers.stamps.handle"


@contextmanager
def producer(url: str) -> Iterator[BlockingProducer]:
    queue = Queue("send", connection=Redis.from_url(url))

    def many(texts: list[str]) -> None:
        queue.enqueue_many([Queue.prepare_data(JOB, (text,), result_ttl=0) for text in texts])

    yield BlockingProducer(one=lambda text: queue.enqueue(JOB, text, result_ttl=0), many=many)


def work(url: str) -> None:
    connection = Redis.from_url(url)
    queue = Queue("send", connection=connection)
    SimpleWorker([queue], connection=connection).work(logging_level="CRITICAL")
