"""LISTEN/NOTIFY between nodes: names at most the pipes that have new work, comes after the commit, may be lost without harm."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import psycopg

from pillarbox.storage.database import News
from pillarbox.storage.postgres_url import PostgresAddress

_CHANNEL = "pillarbox"
_NOTIFY = b"SELECT pg_notify(%s, %s)"
_LISTEN = f"LISTEN {_CHANNEL}".encode()
_QUIET_SECONDS = 0.005
_PAUSE_SECONDS = 0.5
_LONGEST_JOIN = 2.0


class PostgresBell:
    """Rings other nodes, at most once in a few milliseconds, and hears them ring."""

    def __init__(self, address: PostgresAddress, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._wanted = threading.Event()
        self._news: set[str] = set()
        self._adding = threading.Lock()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        # Closing one end wakes the thread that waits for the other and for notifications.
        self._waker, self.woken = socket.socketpair()
        # The backend that rings for us: what we say ourselves is no news.
        self.ringer = 0
        self._ringing = False

    def ring(self, pipe: str) -> None:
        with self._adding:
            self._news.add(pipe)
        if not self._ringing:
            self._ringing = True
            self._start(self._ring_on_demand)
        self._wanted.set()

    def watch(self, rung: Callable[[News], None]) -> None:
        self._start(self._listen, rung)

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._waker.close()
        for thread in self._threads:
            # A server that has stopped answering may keep one for ever; it is a daemon and may stay behind.
            thread.join(_LONGEST_JOIN)
        self.woken.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="pillarbox-bell", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _ring_on_demand(self) -> None:
        with _Reconnecting(self) as connection:
            while not self._closed.is_set():
                self._wanted.wait()
                self._wanted.clear()
                with self._adding:
                    news, self._news = self._news, set()
                connection.run(_NOTIFY, _CHANNEL, _said(news))
                self.ringer = connection.pid
                self._closed.wait(_QUIET_SECONDS)

    def _listen(self, rung: Callable[[News], None]) -> None:
        with _Reconnecting(self) as connection:
            while not self._closed.is_set():
                # Whatever was said before somebody listened.
                heard: News | None = News() if connection.run(_LISTEN) else None
                while heard is not None and not self._closed.is_set():
                    # A listener that went away, its event loop closed, must not end the listening of the others.
                    with suppress(Exception):
                        rung(heard)
                    heard = connection.heard()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._address.conninfo, **self._options)

    def pause(self) -> None:
        self._closed.wait(_PAUSE_SECONDS)

    @property
    def closed(self) -> bool:
        return self._closed.is_set()


class _Reconnecting:
    """One connection that is made again whenever it breaks."""

    def __init__(self, bell: PostgresBell) -> None:
        self.pid = 0
        self._bell = bell
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> _Reconnecting:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def run(self, sql: bytes, *params: str) -> bool:
        try:
            if self._connection is None or self._connection.broken:
                self._connection = self._bell.connect()
            self._connection.execute(sql, params or None)
            self.pid = self._connection.info.backend_pid
        except psycopg.Error:
            self._forget()
            return False
        return True

    def heard(self) -> News | None:
        """Wait for notifications; None when the connection is gone."""
        assert self._connection is not None
        try:
            with DefaultSelector() as waiting:
                waiting.register(self._bell.woken, EVENT_READ)
                waiting.register(self._connection.fileno(), EVENT_READ)
                while not self._bell.closed:
                    waiting.select()
                    rings = [
                        ring.payload for ring in self._connection.notifies(timeout=0) if ring.pid != self._bell.ringer
                    ]
                    if rings:
                        return _told(rings)
        except psycopg.Error:
            self._forget()
        return None

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._bell.pause()


def _said(news: set[str]) -> str:
    """The pipes that have new work; nothing where anything may have changed."""
    return "" if "" in news else " ".join(sorted(news))


def _told(rings: Sequence[str]) -> News:
    return News() if "" in rings else News(frozenset(pipe for ring in rings for pipe in ring.split()), only_work=True)
