"""What is said to a PostgreSQL server in one transaction, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg

from pillarbox.storage.arrays import parameters
from pillarbox.storage.database import Last, Row, Statement
from pillarbox.storage.postgres_wire import Said, Speaker

Result = Callable[[psycopg.Connection[Any]], Any]
"""What a transaction came to, to be had on another connection."""

_COMMIT: Said = (b"COMMIT", {})
_ONE_PLAN: Said = (b"SET LOCAL plan_cache_mode = force_generic_plan", {})


class Exchange:
    """Statements of one transaction: what answers nothing waits for the next that does, or for the end, and costs no round trip
    of its own; so does the beginning.

    Nothing is sent but together with something whose answer is waited for: a process that is stopped just then would keep its
    locks for ever, because the server takes a conversation that goes on for busy.

    Before the first statement that changes anything comes the mark. A transaction that only looks leaves none, and the server has
    nothing to write to its disk.

    What is to be said aside goes out behind the commit, whatever becomes of either.

    From when the commit of a change is on its way, `result` tells what it came to, should nobody hear of its end.
    """

    def __init__(
        self,
        speaker: Speaker,
        *,
        begin: Sequence[Said],
        mark: Said,
        touch: Callable[[], None],
        plans_once: bool,
        aside: Said | None = None,
    ) -> None:
        self._speaker = speaker
        self._aside = aside
        self._mark = mark
        self._touch = touch
        self._unsent: list[Said] = list(begin)
        self._plans_once = plans_once
        self._changes = False
        self._conclude: Callable[[], Any] | None = None
        self.result: Result | None = None

    def __call__(self, statements: Sequence[Statement]) -> list[list[Row]]:
        self._add(statements)
        if not any(statement.query.answers for statement in statements):
            return [[] for _ in statements]
        return self._send()[-len(statements) :]

    def finish(self, last: Last) -> None:
        """Send what is last together with the commit, in one round trip."""
        # Some have nothing to say here that another does not say too.
        statements = [each for each in last.statements if each.query.postgres]
        if self._plans_once and all(each.query.once for each in statements):
            self._unsent.append(_ONE_PLAN)
        first = self._add(statements)
        answers = self._commit(lambda connection: last.result(*_asked(connection, last.again)))
        answering = [rows for rows, each in zip(answers[first:], statements, strict=False) if each.query.answers]
        self._conclude = lambda: last.result(*answering)

    def commit(self, result: Any) -> None:
        """Send what is left and the commit, unless that is done."""
        if self._conclude is None:
            self._commit(lambda connection: result)
            self._conclude = lambda: result

    def concluded(self) -> Any:
        """What the transaction came to, after its end."""
        assert self._conclude is not None
        return self._conclude()

    def _commit(self, result: Result) -> list[list[Row]]:
        self._unsent.append(_COMMIT)
        self.result = result if self._changes else None
        return self._send(self._aside)

    def _add(self, statements: Sequence[Statement]) -> int:
        """Keep them until something is sent; where the first of them stands among what is kept."""
        if not self._changes and any(statement.query.changes for statement in statements):
            self._changes = True
            self._unsent.append(self._mark)
        first = len(self._unsent)
        self._unsent += [(_text(statement), parameters(statement)) for statement in statements]
        return first

    def _send(self, aside: Said | None = None) -> list[list[Row]]:
        self._touch()
        unsent, self._unsent = self._unsent, []
        self._plans_once = False
        return self._speaker.ask(unsent, aside=aside)


def ask(connection: psycopg.Connection[Any], statement: Statement) -> psycopg.Cursor[Any]:
    return connection.execute(_text(statement), parameters(statement))


def _asked(connection: psycopg.Connection[Any], statements: Sequence[Statement]) -> list[list[Row]]:
    return [ask(connection, statement).fetchall() for statement in statements]


def answers(cursors: Sequence[psycopg.Cursor[Any]], statements: Sequence[Statement]) -> list[list[Row]]:
    return [
        cursor.fetchall() if statement.query.answers else []
        for cursor, statement in zip(cursors, statements, strict=True)
    ]


def _text(statement: Statement) -> bytes:
    return statement.query.postgres.encode()
