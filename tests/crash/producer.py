"""Producers that post until they are answered: the same source id again after every refusal or lost answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from itertools import count
from urllib.error import URLError

from tests.servers.daemon import Daemon


class Producer(threading.Thread):
    """Posts to one session, one message after another, to whichever node answers."""

    def __init__(self, name: str, pick: Callable[[], Daemon], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[int] = []
        self.trouble: list[tuple[int, object]] = []
        self._session = name
        self._pick = pick
        self._ended = stop

    def run(self) -> None:
        for number in count():
            if self._ended.is_set():
                return
            self._post_until_answered(number)

    def _post_until_answered(self, number: int) -> None:
        body = {
            "session_id": self._session,
            "origin": "producer",
            "content": f"{number}",
            "source_message_id": f"{self._session}-{number}",
        }
        while True:
            try:
                status, answer = self._pick().call("POST", "/v1/inbound", body, seconds=10)
            except (URLError, OSError, HTTPException):
                status, answer = 0, None
            if status in (200, 202):
                self.acknowledged.append(answer["id"])
                return
            if status not in (0, 503):
                self.trouble.append((status, answer))
                return
            self._ended.wait(0.02)


@contextmanager
def producing(sessions: list[str], pick: Callable[[], Daemon]) -> Iterator[list[Producer]]:
    """One producer for each session for as long as the block runs; they end with everything they began answered."""
    stop = threading.Event()
    producers = [Producer(session, pick, stop) for session in sessions]
    for producer in producers:
        producer.start()
    try:
        yield producers
    finally:
        stop.set()
        for producer in producers:
            producer.join(30)
