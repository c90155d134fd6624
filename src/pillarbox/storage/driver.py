"""Running a step of statements on whatever executes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pillarbox.storage.database import Last, Row, Statement, Together, Work

T = TypeVar("T")

Execute = Callable[[Sequence[Statement]], list[list[Row]]]
ExecuteAsync = Callable[[Sequence[Statement]], Awaitable[list[list[Row]]]]


def drive(work: Work[T], execute: Execute, finish: Callable[[Last], T] | None = None) -> T:
    """Run a work to its end and return what it returns; `finish` can end the transaction together with what is last."""
    step = work()
    try:
        statement = next(step)
        while True:
            match statement:
                case Together(statements):
                    statement = step.send(execute(statements))
                case Statement():
                    statement = step.send(execute((statement,))[0])
                case Last(statements, _, result):
                    ended: T = finish(statement) if finish else result(execute(statements)[0])
                    return ended
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
                case Last(statements, _, result):
                    ended: T = result((await execute(statements))[0])
                    return ended
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        step.close()
