"""Running a step of statements on whatever executes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pillarbox.errors import Unavailable
from pillarbox.storage.database import Last, Row, Statement, Step, Together, Work

T = TypeVar("T")

Execute = Callable[[Sequence[Statement]], list[list[Row]]]
ExecuteAsync = Callable[[Sequence[Statement]], Awaitable[list[list[Row]]]]


class Illegible(Unavailable):
    """The statements were all run, but what one of them answered is no text."""


def drive(work: Work[T], execute: Execute, finish: Callable[[Last], T] | None = None) -> T:
    """Run a work to its end and return what it returns; or, for one that ends with `ending`, what `finish` makes of that."""
    step = work()
    try:
        statement = next(step)
        while True:
            match statement:
                case Together(statements):
                    statement = step.send(execute(statements))
                case Statement():
                    statement = step.send(execute((statement,))[0])
                case Last():
                    if finish is not None:
                        return finish(statement)
                    return _end(step, statement, _answers(statement, execute))
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        step.close()


async def drive_async(work: Work[T], execute: ExecuteAsync) -> T:
    """The same where executing is awaited."""
    step = work()
    try:
        statement = next(step)
        while True:
            match statement:
                case Together(statements):
                    statement = step.send(await execute(statements))
                case Statement():
                    statement = step.send((await execute((statement,)))[0])
                case Last():
                    return _end(step, statement, _told(statement, await execute(statement.statements)))
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        step.close()


def _answers(last: Last, execute: Execute) -> list[list[Row]]:
    """What the last statements answer, or, where that is illegible, those that bring the same."""
    try:
        return _told(last, execute(last.statements))
    except Illegible:
        return execute(last.again)


def _told(last: Last, rows: list[list[Row]]) -> list[list[Row]]:
    return [found for found, each in zip(rows, last.statements, strict=True) if each.query.answers]


def _end(step: Step[T], last: Last, answers: list[list[Row]]) -> T:
    """What a work comes to that has ended; nothing of it may follow, for elsewhere it would never be run."""
    ended: T = last.result(*answers)
    try:
        step.send(ended)  # type: ignore[arg-type]
    except StopIteration as end:
        if end.value is ended:
            return ended
    raise AssertionError("something follows the ending of a transaction")
