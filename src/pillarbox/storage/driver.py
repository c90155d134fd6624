"""Running a step of statements on whatever executes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pillarbox.storage.database import Last, Row, Statement, Step, Together, Work

T = TypeVar("T")

Execute = Callable[[Sequence[Statement]], list[list[Row]]]
ExecuteAsync = Callable[[Sequence[Statement]], Awaitable[list[list[Row]]]]


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
                    return _end(step, statement, execute(statement.statements))
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
                    return _end(step, statement, await execute(statement.statements))
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        step.close()


def _end(step: Step[T], last: Last, rows: list[list[Row]]) -> T:
    """What a work comes to that has ended; nothing of it may follow, for elsewhere it would never be run."""
    ended: T = last.result(*(found for found, each in zip(rows, last.statements, strict=True) if each.query.answers))
    try:
        step.send(ended)  # type: ignore[arg-type]
    except StopIteration as end:
        if end.value is ended:
            return ended
    raise AssertionError("something follows the ending of a transaction")
