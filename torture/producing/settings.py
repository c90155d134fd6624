"""What a process of ours is told about the round it is part of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from torture.door import Door
from torture.journal import Journal


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are and how many of each there are; kept in a file that the process is given."""

    folder: str
    seed: int
    database: str
    receivers: str
    ports: Sequence[int]
    target: str
    sessions: int
    closers: int
    hook_sessions: int
    agents: int
    senders: int
    contenders: int
    inbox_lease: float
    environ: dict[str, str]

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


def read_round(path: str) -> Round:
    return msgspec.json.decode(Path(path).read_bytes(), type=Round)


class Producers:
    """What every producer is given: the round, its ledger, and doors."""

    def __init__(self, round_: Round, ledger: Journal) -> None:
        self.round = round_
        self.ledger = ledger
        self._over = False

    def over(self) -> bool:
        """Whether the round is over: what was begun is ended, and nothing else is begun."""
        return self._over

    def end(self) -> None:
        self._over = True

    def chance(self, name: str) -> random.Random:
        return random.Random(f"{self.round.seed} {name}")

    def door(self, name: str) -> Door:
        return Door(self.round.ports, self.chance(f"{name} door"))

    def unexpected(self, what: str, status: int, answer: object) -> None:
        """An answer that nobody should get."""
        self.ledger.add(pipe="answers", kind="unexpected", what=what, status=status, answer=str(answer)[:300])
