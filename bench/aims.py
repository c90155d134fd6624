"""What the table should show, and what it does show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

Row = dict[str, Any]
OURS = "Pillarbox"
FLAT = 0.8
IDLE_MIB = 90
SOAK_GROWTH = 1.05
OVERVIEW_MS = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """One aim: our figure divided by the one it is held against, and whether that is enough."""

    aim: str
    ratio: float
    least: float
    against: str
    ours: Row = field(default_factory=dict, compare=False)
    theirs: Row = field(default_factory=dict, compare=False)

    @property
    def met(self) -> bool:
        return self.ratio >= self.least


def verdicts(rows: Iterable[Row]) -> Iterator[Verdict]:
    """Every aim for which both sides were measured, of each of our pipes."""
    found = [row for row in rows if "drain2" in row]
    peers = [row for row in found if not row["name"].startswith(OURS)]
    for ours in found:
        if ours["name"].startswith(OURS):
            yield from _of_pipe(ours, peers)


def unmeasured(rows: Iterable[Row]) -> Iterator[Row]:
    """The peers that no aim is held against, because they could not be measured here."""
    for row in rows:
        if "drain2" not in row and row["promise"] != "none":
            yield row


def flatness(curve: Row) -> float:
    """The least that a row cost at any smaller size divided by what it costs, in processor time, where that is worst.

    Not in seconds: those of a machine that others use too vary more than what is looked for here.
    """
    costs: list[float] = curve["microseconds"]
    return min(least / cost for least, cost in zip(accumulate(costs, min), costs, strict=True))


def _of_pipe(ours: Row, peers: list[Row]) -> Iterator[Verdict]:
    pipe, store = ours["name"].removeprefix(f"{OURS} "), ours["store"]
    if store == "postgres":
        yield from _on_postgres(pipe, ours, peers)
    elif theirs := _of(peers, store):
        yield _against(f"{pipe}: SQLite drain, 1 process", ours, max(theirs, key=_drain), "drain1", least=5)
    waited = [row for row in peers if "p50" in row]
    if waited and "p50" in ours:
        quickest = min(waited, key=lambda each: float(each["p50"]))
        aim = f"{pipe}: idle latency p50, {store}, between two processes"
        yield Verdict(aim, quickest["p50"] / ours["p50"], 1.0, _name(quickest), ours, quickest)


def _on_postgres(pipe: str, ours: Row, peers: list[Row]) -> Iterator[Verdict]:
    drain = f"{pipe}: PostgreSQL drain, 1 process"
    for peer in _of(peers, "postgres"):
        yield _against(drain, ours, peer, "drain1", least=1.5 if peer["name"] == "PgQueuer" else 10.0)
    if redis := _of(peers, "redis"):
        yield _against(drain, ours, max(redis, key=_drain), "drain1", least=1)
    if theirs := _of(peers, "postgres"):
        best = max(theirs, key=lambda row: float(row["single"]))
        aim = f"{pipe}: PostgreSQL enqueue by 100 callers against one caller"
        yield Verdict(aim, ours["together"] / best["single"], 10.0, _name(best), ours, best)


def _against(aim: str, ours: Row, peer: Row, column: str, *, least: float) -> Verdict:
    return Verdict(aim, ours[column] / peer[column], least, _name(peer), ours, peer)


def _of(rows: list[Row], store: str) -> list[Row]:
    return [row for row in rows if row["store"] == store]


def _drain(row: Row) -> float:
    return float(row["drain1"])


def _name(row: Row) -> str:
    return f"{row['name']} on {row['store']}"
