"""Strands that were begun here although nobody here answers for them any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

from pillarbox.engine.lease import RowT, Settlement, Strand
from pillarbox.telemetry import logger

log = logger(__name__)

_MOST = 10_000


class LostStrands(Generic[RowT]):
    """Remembers a bounded number of them: what was begun is not given back as if it had not been, its lease ends."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}

    def note(self, strand: Strand[RowT]) -> None:
        self._tokens[strand.key] = strand.token
        if len(self._tokens) > _MOST:
            del self._tokens[next(iter(self._tokens))]

    def report(self, lost: Iterable[Settlement[RowT]]) -> None:
        """Note and tell of outcomes that came after their hold was lost."""
        for settlement in lost:
            self.note(settlement.strand)
            log.warning(
                "an outcome came after its lease was lost; whoever holds it now decides",
                id=settlement.row.id,
                token=settlement.strand.token,
                outcome=type(settlement.outcome).__name__,
            )

    def among(self, held: Iterable[Strand[RowT]]) -> set[tuple[str, int]]:
        """Those that are still held in our name; the others are forgotten."""
        kept = {(strand.key, strand.token) for strand in held} & set(self._tokens.items())
        self._tokens = dict(kept)
        return kept
