"""The stored timeline of a PostgreSQL server: its clock, less the steps by which that was set while nodes were looking.

Between two looks a node counts for itself, so that a step neither ends a lease nor freezes a wait. Whoever sees a step first
writes the correction that keeps the timeline going; the others, and nodes that start later, take it from there.
"""

from __future__ import annotations

from collections.abc import Callable
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

Measure = Callable[[psycopg.Connection[Any]], float]


class Timeline:
    """One node's view of the timeline."""

    def __init__(self, connection: psycopg.Connection[Any], *, measure: Measure | None = None) -> None:
        self._measure = measure or server_offset
        connection.execute(_BEGIN)
        self._correction = _one(connection, _LOCK)
        offset = self._measure(connection) + self._correction
        self.clock = OffsetClock(counter=uptime, offset=offset, wall=self._server_time)

    def tend(self, connection: psycopg.Connection[Any]) -> None:
        """Compare with the server: follow its drift, and keep its steps out."""
        with connection.transaction():
            correction = _one(connection, _LOCK)
            offset = self._measure(connection) + correction
            step = offset - self.clock.offset
            if abs(step) < _A_STEP:
                self.clock.follow(offset)
            elif correction == self._correction:
                correction -= step
                connection.execute(_CORRECT, (correction,))
            else:
                self.clock.jump(offset)
        self._correction = correction

    def _server_time(self) -> datetime:
        return self.clock.now() - timedelta(seconds=self._correction)


def server_offset(connection: psycopg.Connection[Any]) -> float:
    """The server's clock against our own counter, halving the round trip."""
    before = uptime()
    told = _one(connection, _ASK)
    return told - (before + uptime()) / 2


def _one(connection: psycopg.Connection[Any], sql: str) -> float:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return float(row[0])
