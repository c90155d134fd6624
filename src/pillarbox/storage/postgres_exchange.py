"""What is said to a PostgreSQL server in one transaction, and what it answers."""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from pillarbox.storage.arrays import parameters
from pillarbox.storage.database import Last, Row, Statement

Touch = Callable[[psycopg.Connection[Any]], None]
Said = tuple[bytes, Mapping[str, Any]]
Result = Callable[[psycopg.Connection[Any]], Any]
"""What a transaction came to, to be had on another connection."""


class Exchange:
    """Statements, in a pipeline if there is one: what answers nothing waits for the next that does, or for the end, and costs no
    round trip of its own.

    Each answer is waited for with a sync, which tells the server that we are idle in a transaction, so that it counts for how
    long; and nothing is sent without one behind it. A process that is stopped just then would keep its locks for ever.

    Before the first statement that changes anything comes the mark. A transaction that only looks leaves none, and the server has
    nothing to write to its disk.

    From when the commit of a change is on its way, `result` tells what it came to, should nobody hear of its end.
    """

    def __init__(
        self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline | None, *, mark: Said, touch: Touch
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._mark = mark
        self._touch = touch
        self._unsent: list[Said] = []
        self._changes = False
        self._conclude: Callable[[], Any] | None = None
        self.result: Result | None = None

    def __call__(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self._touch(self._connection)
        self._add(statements)
        if not any(statement.query.answers for statement in statements):
            return [[] for _ in statements]
        cursors = self._send()
        if self._pipeline is not None:
            _push(self._connection)
            self._pipeline.sync()
        return answers(cursors[-len(statements) :], statements)

    def finish(self, last: Last) -> None:
        """Send what is last together with the commit, in one round trip, which ends with the pipeline."""
        self._touch(self._connection)
        first = self._add(last.statements)
        cursors = self._commit(lambda connection: last.result(*_asked(connection, last.again)))
        answering = [
            cursor for cursor, each in zip(cursors[first:], last.statements, strict=True) if each.query.answers
        ]
        self._conclude = lambda: last.result(*(cursor.fetchall() for cursor in answering))
        if self._pipeline is not None:
            _push(self._connection)

    def commit(self, result: Any) -> None:
        """Send what is left and the commit, unless that is done."""
        if self._conclude is None:
            self._commit(lambda connection: result)
            self._conclude = lambda: result

    def concluded(self) -> Any:
        """What the transaction came to, after the pipeline has ended."""
        assert self._conclude is not None
        return self._conclude()

    def _commit(self, result: Result) -> list[psycopg.Cursor[Any]]:
        cursors = self._send()
        self.result = result if self._changes else None
        self._connection.execute(b"COMMIT")
        return cursors

    def _add(self, statements: Sequence[Statement]) -> int:
        """Keep them until something is sent; where the first of them stands among what is kept."""
        if not self._changes and any(statement.query.changes for statement in statements):
            self._changes = True
            self._unsent.append(self._mark)
        first = len(self._unsent)
        self._unsent += [(_text(statement), parameters(statement)) for statement in statements]
        return first

    def _send(self) -> list[psycopg.Cursor[Any]]:
        """Send what is left; prepared, so that the server reads each text once for a connection."""
        unsent, self._unsent = self._unsent, []
        return [self._connection.execute(text, params, prepare=True) for text, params in unsent]


def ask(connection: psycopg.Connection[Any], statement: Statement) -> psycopg.Cursor[Any]:
    return connection.execute(_text(statement), parameters(statement))


def _asked(connection: psycopg.Connection[Any], statements: Sequence[Statement]) -> list[list[Row]]:
    return [ask(connection, statement).fetchall() for statement in statements]


def answers(cursors: Sequence[psycopg.Cursor[Any]], statements: Sequence[Statement]) -> list[list[Row]]:
    return [
        cursor.fetchall() if statement.query.answers else []
        for cursor, statement in zip(cursors, statements, strict=True)
    ]


def _push(connection: psycopg.Connection[Any]) -> None:
    """Until all that was sent is on its way and there is room for a little more: the driver's sync waits for the answer to
    what it could not send."""
    server, wire = connection.pgconn, select.poll()
    wire.register(server.socket, select.POLLIN | select.POLLOUT)
    while True:
        left = server.flush()
        ((_, ready),) = wire.poll()
        if ready & select.POLLIN:
            server.consume_input()
        if not left and ready & ~select.POLLIN:
            return


def _text(statement: Statement) -> bytes:
    return statement.query.postgres.encode()
