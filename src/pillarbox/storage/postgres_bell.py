"""LISTEN/NOTIFY between nodes: names at most the pipes that have new work, may be lost without harm.

It comes after the commit, by a statement of its own: a notification takes a lock at the commit of its transaction that all others
with one wait for. Only what was quiet for a while rings with the commit itself, which is a round trip and some threads sooner.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import psycopg

from pillarbox.storage.database import News
from pillarbox.storage.postgres_exchange import Said
from pillarbox.storage.postgres_url import PostgresAddress

_CHANNEL = "pillarbox"
_NOTIFY = f"SELECT pg_notify('{_CHANNEL}', %(said)s)".encode()
_LISTEN = f"LISTEN {_CHANNEL}".encode()
_QUIET_SECONDS = 0.005
_LONG_QUIET_SECONDS = 0.02
_REFUSED_SECONDS = 60.0
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
        # Who rings: what we say ourselves is no news.
        self.name = secrets.token_hex(4)
        self._rang = 0.0
        self._refused_until = 0.0
        self._ringing = False

    def ring(self, pipe: str) -> None:
        with self._adding:
            self._news.add(pipe)
            if not self._ringing:
                self._ringing = True
                self._start(self._ring_on_demand)
        self._wanted.set()

    def with_commit(self, pipe: str) -> Said | None:
        """What to say before a commit; None where something was said shortly before, and `ring` is to be called after it."""
        now = time.monotonic()
        if now - self._rang < _LONG_QUIET_SECONDS or self.refused:
            return None
        self._rang = now
        return self._said({pipe})

    def be_refused(self) -> None:
        """A server that does not take a ring must not refuse what comes with it: for a while none goes with a commit."""
        self._refused_until = time.monotonic() + _REFUSED_SECONDS

    @property
    def refused(self) -> bool:
        return time.monotonic() < self._refused_until

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
                self._rang = time.monotonic()
                connection.run(*self._said(news))
                self._closed.wait(_QUIET_SECONDS)

    def _said(self, news: set[str]) -> Said:
        """Who says it, and the pipes that have new work; none where anything may have changed."""
        return _NOTIFY, {"said": " ".join([self.name, *([] if "" in news else sorted(news))])}

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
        self._bell = bell
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> _Reconnecting:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def run(self, sql: bytes, params: Mapping[str, Any] | None = None) -> bool:
        try:
            if self._connection is None or self._connection.broken:
                self._connection = self._bell.connect()
            self._connection.execute(sql, params)
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
                    rings = [ring.payload.split() for ring in self._connection.notifies(timeout=0)]
                    others = [ring[1:] for ring in rings if ring[:1] != [self._bell.name]]
                    if others:
                        return _told(others)
        except psycopg.Error:
            self._forget()
        return None

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._bell.pause()


def _told(rings: Sequence[Sequence[str]]) -> News:
    """What several rings tell together; older versions say nothing at all, and may mean anything."""
    return News(frozenset(pipe for ring in rings for pipe in ring), only_work=True) if all(rings) else News()
