"""What the pipes ask of a database.

A transaction is written once, as a generator that yields statements and is sent their rows: `Step`. It does no I/O itself, so
the same text runs on the SQLite writer thread, on a PostgreSQL connection, or inside a caller's own transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pillarbox.clock import Clock

if TYPE_CHECKING:
    from pillarbox.storage.queries import Query
    from pillarbox.storage.standing import Standing

T = TypeVar("T")

Params = Mapping[str, object]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """One query and its parameters; a list parameter holds the rows of a set."""

    query: Query
    params: Params


@dataclass(frozen=True, slots=True)
class Together:
    """Statements that do not need each other's answers, sent in one round trip."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Last:
    """What ends a transaction: see `ending`."""

    statements: tuple[Statement, ...]
    again: tuple[Statement, ...]
    result: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class News:
    """What another process may have committed: which pipes may have work, if that is known, and whether that is all."""

    work: frozenset[str] | None = None
    only_work: bool = False

    def has_work_for(self, pipe: str) -> bool:
        return self.work is None or pipe in self.work


Step = Generator[Statement | Together | Last, list[Any], T]
Work = Callable[[], Step[T]]


def together(*statements: Statement) -> Step[list[list[Row]]]:
    """Run several statements at once; answers the rows of each."""
    return (yield Together(statements))


def ending(*statements: Statement, again: Sequence[Statement], result: Callable[..., T]) -> Step[T]:
    """End a transaction with these, which can be sent together with its commit; nothing of the step is run after that.

    The result is made from the rows of each that answers any. Should these be lost on their way although the commit took
    effect, the statements of `again` bring the same.
    """
    return cast("T", (yield Last(statements, tuple(again), result)))


class Database(Protocol):
    """A durable store.

    A write is one transaction: when it returns, it is on disk, once; when it raises, nothing of it is. `Unavailable` means try
    again later. A work may be run more than once before it commits, so it must not have effects of its own. The blocking forms
    are for threads that may not wait for an event loop, such as the one that renews leases.
    """

    dialect: str
    many_writers: bool
    """Whether transactions that write can be under way at the same time."""

    @property
    def clock(self) -> Clock: ...

    @property
    def waiting(self) -> int:
        """How many transactions of this process wait or are under way."""

    async def write(self, work: Work[T]) -> T: ...

    async def write_new(self, work: Work[T], *, pipe: str | None = None) -> T:
        """A write that brings new work: refused with `DatabaseFull` while the room left is kept for marks of what was begun.

        Where it is for a pipe, other processes are told, as by `ring`.
        """

    async def read(self, work: Work[T]) -> T: ...

    def write_blocking(self, work: Work[T]) -> T: ...

    def read_blocking(self, work: Work[T]) -> T: ...

    def ring(self, pipe: str = "") -> None:
        """Tell other processes, soon and without waiting, that something was committed which they may want.

        New work for a pipe concerns that pipe alone.
        """

    def watch(self, rung: Callable[[News], None]) -> None:
        """Call `rung`, from any thread, whenever another process may have committed something."""

    def stand_by(
        self, pipe: str, work: Work[T], *, ready: Callable[[], None], look: Work[T | None] | None = None
    ) -> Standing[T] | None:
        """Keep a write ready, to be run the moment another process is known to have brought work for a pipe, by the thread that
        hears of it; `ready` is called on the caller's loop when it has ended. Not watched or nobody to hear: None.

        A `look` may find without writing what was brought. It is tried first where whoever hears of it can read at once.
        """

    async def tend(self) -> None:
        """What wants doing now and then, such as measuring the server's clock again."""

    async def close(self) -> None: ...
