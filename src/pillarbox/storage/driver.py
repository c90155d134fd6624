"""Running a step of statements on whatever executes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pillarbox.storage.database import Row, Statement, Together, Work

T = TypeVar("T")

Execute = Callable[[Sequence[Statement]], list[list[Row]]]
ExecuteAsync = Callable[[Sequence[Statement]], Awaitable[list[list[Row]]]]


def drive(work: Work[T], execute: Execute) -> T:
    """Run a work to its end and return what it returns."""
    step = work()
    try:
        statement = next(step)
        while True:
            match statement:
                case Together(statements):
                    statement = step.send(execute(statements))
                case Statement():
                    statement = step.send(execute((statement,))[0])
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
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        step.close()
