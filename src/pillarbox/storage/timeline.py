"""The stored timeline of a PostgreSQL server: its clock, less the steps by which that was set while nodes were looking.

Between two looks a node counts for itself, so that a step neither ends a lease nor freezes a wait. Whoever sees a step first
writes the correction that keeps the timeline going; the others, and nodes that start later, take it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from pillarbox.clock import OffsetClock, uptime

CREATE_TIMELINE = "CREATE TABLE IF NOT EXISTS timeline (id INTEGER PRIMARY KEY, correction DOUBLE PRECISION NOT NULL)"
_BEGIN = "INSERT INTO timeline (id, correction) VALUES (1, 0) ON CONFLICT (id) DO NOTHING"
_LOCK = "SELECT correction FROM timeline WHERE id = 1 FOR UPDATE"
_CORRECT = "UPDATE timeline SET correction = %s WHERE id = 1"
_ASK = "SELECT extract(epoch FROM clock_timestamp())::float8"
_A_STEP = 1.0
_TRIES = 8
_NEAR_ENOUGH = 0.0002


@dataclass(frozen=True, slots=True)
class Measured:
    """How far the server's clock is from our own counter, and by how much that may be wrong."""

    offset: float
    error: float


Measure = Callable[[psycopg.Connection[Any]], Measured]


class Timeline:
    """One node's view of the timeline."""

    def __init__(self, connection: psycopg.Connection[Any], *, measure: Measure | None = None) -> None:
        self._measure = measure or server_offset
        connection.execute(_BEGIN)
        self._correction = _one(connection, _LOCK)
        found = self._measure(connection)
        self._error = found.error
        self.clock = OffsetClock(counter=uptime, offset=found.offset + self._correction, wall=self._server_time)

    def tend(self, connection: psycopg.Connection[Any]) -> None:
        """Compare with the server: follow its drift, and keep its steps out."""
        with connection.transaction():
            correction = _one(connection, _LOCK)
            found = self._measure(connection)
            offset = found.offset + correction
            step = offset - self.clock.offset
            if abs(step) <= found.error + self._error:
                self._sharpen(offset, found.error)
            elif abs(step) < _A_STEP:
                self._follow(offset, found.error)
            elif correction == self._correction:
                correction -= step
                connection.execute(_CORRECT, (correction,))
            else:
                self._error = found.error
                self.clock.jump(offset)
        self._correction = correction

    def _sharpen(self, offset: float, error: float) -> None:
        """Nothing shows that our own measurement was wrong; a better one takes its place."""
        if error < self._error:
            self._follow(offset, error)

    def _follow(self, offset: float, error: float) -> None:
        self._error = error
        self.clock.follow(offset)

    def _server_time(self) -> datetime:
        return self.clock.now() - timedelta(seconds=self._correction)


def server_offset(connection: psycopg.Connection[Any]) -> Measured:
    """The server's clock against our own counter."""
    return nearest(lambda: _one(connection, _ASK), uptime)


def nearest(ask: Callable[[], float], counter: Callable[[], float]) -> Measured:
    """The middle of the quickest of a few round trips: whoever is held up in one of them would be wrong by half of it."""
    return min(_round_trips(ask, counter), key=lambda found: found.error)


def _round_trips(ask: Callable[[], float], counter: Callable[[], float]) -> Iterator[Measured]:
    for _ in range(_TRIES):
        before = counter()
        told = ask()
        after = counter()
        yield Measured(told - (before + after) / 2, (after - before) / 2)
        if after - before < _NEAR_ENOUGH:
            return


def _one(connection: psycopg.Connection[Any], sql: str) -> float:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return float(row[0])
