"""Looks at the tables while everything happens, each time in one snapshot: what belongs together agrees at every moment."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import apsw
import psycopg

from torture.caller import connect
from torture.journal import Journal

_EVERY = 2.0
_TRIES_AT_REST = 10
_BEFORE_ANOTHER = 1.0
_AWAY = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.IOError,
    apsw.FullError,
    apsw.CantOpenError,
    apsw.ProtocolError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
    OSError,
)
"""What a database answers that was struck; anything else is an answer to a look that is wrong, or a damaged database's."""
_OPEN = "('pending', 'processing', 'failed')"
_STRAND = """
SELECT s.session_id, s.open_count, s.head_seq, q.rows, q.head FROM {strand} s LEFT JOIN (
    SELECT session_id, count(*) AS rows, min(seq) AS head FROM {queue} WHERE status IN {open} GROUP BY session_id
) q ON q.session_id = s.session_id
WHERE s.open_count <> COALESCE(q.rows, 0) OR s.head_seq IS DISTINCT FROM q.head LIMIT 20
"""
_LOOKS = {
    "open in the history and not in the queue": """
SELECT h.message_id, h.status FROM message_history h LEFT JOIN message_queue q ON q.message_id = h.message_id
WHERE h.status IN ('pending', 'retrying') AND q.message_id IS NULL LIMIT 20
""",
    "in the queue and not open in the history": """
SELECT q.message_id, h.status FROM message_queue q LEFT JOIN message_history h ON h.message_id = q.message_id
WHERE h.status IS NULL OR h.status NOT IN ('pending', 'retrying') LIMIT 20
""",
    "ended in the history as its attempts did not": """
SELECT h.message_id, h.status, h.attempt_count, a.accepted FROM message_history h LEFT JOIN (
    SELECT message_id, sum(CASE WHEN outcome = 'accepted' THEN 1 ELSE 0 END) AS accepted
    FROM message_attempt GROUP BY message_id
) a ON a.message_id = h.message_id
WHERE COALESCE(a.accepted, 0) <> CASE WHEN h.status = 'delivered' THEN 1 ELSE 0 END LIMIT 20
""",
    "a session that counts other messages than it has": _STRAND.format(
        strand="inbound_strand", queue="inbound_queue", open=_OPEN
    ),
    "a session that counts other events than it has": _STRAND.format(
        strand="hook_strand", queue="hook_outbox", open=_OPEN
    ),
}


def look(database: str) -> dict[str, list[Any]]:
    """What does not agree at this moment, by what is wrong with it."""
    with closing(connect(database)) as connection:
        connection.execute(
            "BEGIN" if database.startswith("sqlite") else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        )
        found = {name: _rows(connection.execute(statement)) for name, statement in _LOOKS.items()}
        connection.execute("COMMIT")
    return {name: rows for name, rows in found.items() if rows}


def _rows(found: Any) -> list[Sequence[Any]]:
    return [[each if isinstance(each, int) else str(each) for each in row] for row in found]


def is_away(error: Exception) -> bool:
    """Whether it is the database that was struck, and not the look that is wrong."""
    # What has no SQLSTATE was not said by the server: the connection to it was lost.
    return isinstance(error, _AWAY) or (isinstance(error, psycopg.Error) and error.sqlstate is None)


class Onlooker:
    """Looks every few seconds until it is told to stop, and writes down what it saw; a database that is away is not seen.

    A look that fails although the database is there is written down as something wrong.
    """

    def __init__(self, database: str, journal: Journal) -> None:
        self._database = database
        self._journal = journal
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look once more, at rest, where the database is to be seen."""
        self._over.set()
        self._thread.join()
        waiting = threading.Event()
        for _ in range(_TRIES_AT_REST):
            if self._look(at_rest=True):
                break
            waiting.wait(_BEFORE_ANOTHER)
        self._journal.close()

    def _run(self) -> None:
        while not self._over.wait(_EVERY):
            self._look()

    def _look(self, *, at_rest: bool = False) -> bool:
        """Whether there was anything to be seen."""
        try:
            wrong = look(self._database)
        except (apsw.Error, psycopg.Error, OSError) as error:
            if is_away(error):
                return False
            wrong = {"a look that failed": [[f"{type(error).__name__}: {error}"]]}
        self._journal.add(wrong=wrong, at_rest=at_rest)
        self._journal.keep(durable=False)
        return True
