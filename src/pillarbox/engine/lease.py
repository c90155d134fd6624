"""Holds on rows, and what is reported under them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

import msgspec

from pillarbox.engine.outcome import Outcome


class Attempted(Protocol):
    """A row as the engine sees it: something with an id that knows how often it was tried, this time included."""

    @property
    def id(self) -> object: ...

    @property
    def attempt_count(self) -> int: ...


RowT = TypeVar("RowT", bound=Attempted)


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds, and for how long unless renewed."""

    holder: str
    length: timedelta


@dataclass(frozen=True, slots=True)
class Strand(Generic[RowT]):
    """Rows of one key, held under a token that only grows, to be delivered one after another."""

    key: str
    destination: str
    token: int
    rows: tuple[RowT, ...]

    def is_of(self, key: str, row_id: object) -> bool:
        """Whether it is that key's, and has that row in it where one is named."""
        return self.key == key and (row_id is None or any(row.id == row_id for row in self.rows))


class Settlement(msgspec.Struct, Generic[RowT], frozen=True, gc=False):
    """What became of one row; `ends` when nothing further of its strand will be reported under this token."""

    strand: Strand[RowT]
    row: RowT
    outcome: Outcome
    ends: bool = True
