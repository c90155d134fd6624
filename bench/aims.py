"""What the table should show, and what it does show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, product
from typing import Any

Row = dict[str, Any]
OURS = "Pillarbox"
FLAT = 0.8
IDLE_MB = 90
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
    """Every aim of speed for which both sides were measured, of each of our pipes."""
    ours, peers = _sides(rows, "drain2")
    for each in ours:
        pipe = each["name"].removeprefix(f"{OURS} ")
        if each["store"] == "postgres":
            yield from _on_postgres(pipe, each, peers)
        elif theirs := _of(peers, each["store"]):
            best = max(theirs, key=_drain)
            yield _against(f"{pipe}: SQLite drain, 1 process", each, best, "drain1", least=5)


def latencies(rows: Iterable[Row]) -> Iterator[Verdict]:
    """The aim of being quicker than every peer on an idle queue: each of our pipes against each of them."""
    ours, peers = _sides(rows, "p50")
    for each, peer in product(ours, peers):
        aim = f"{each['name'].removeprefix(f'{OURS} ')}: idle latency p50, {each['store']}"
        yield Verdict(aim, peer["p50"] / each["p50"], 1.0, _name(peer), each, peer)


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


def megabytes(mebibytes: float) -> float:
    """Of 10^6 bytes, in which the aim for memory is."""
    return mebibytes * 2**20 / 1e6


def by_the_clock(curve: Row) -> float:
    """The rate at the largest size divided by the best at any smaller one."""
    *smaller, largest = curve["rates"]
    return float(largest / max(smaller))


def _sides(rows: Iterable[Row], column: str) -> tuple[list[Row], list[Row]]:
    """Our rows and the peers' that have a figure in this column."""
    found = [row for row in rows if column in row]
    ours = [row for row in found if row["name"].startswith(OURS)]
    return ours, [row for row in found if row not in ours]


def _on_postgres(pipe: str, ours: Row, peers: list[Row]) -> Iterator[Verdict]:
    drain = f"{pipe}: PostgreSQL drain, 1 process"
    for peer in _of(peers, "postgres"):
        yield _against(drain, ours, peer, "drain1", least=1.5 if peer["name"] == "PgQueuer" else 10.0)
    if redis := _of(peers, "redis"):
        quickest = max(redis, key=_drain)
        verdict = _against(drain, ours, quickest, "drain1", least=1)
        yield replace(verdict, against=f"the fastest of the Redis peers ({quickest['name']})")
    if theirs := _of(peers, "postgres"):
        best = max(theirs, key=lambda row: float(row["single"]))
        aim, against = f"{pipe}: PostgreSQL enqueue, 100 callers", f"one caller of {_name(best)}, the best there"
        yield Verdict(aim, ours["together"] / best["single"], 10.0, against, ours, best)


def _against(aim: str, ours: Row, peer: Row, column: str, *, least: float) -> Verdict:
    return Verdict(aim, ours[column] / peer[column], least, _name(peer), ours, peer)


def _of(rows: list[Row], store: str) -> list[Row]:
    return [row for row in rows if row["store"] == store]


def _drain(row: Row) -> float:
    return float(row["drain1"])


def _name(row: Row) -> str:
    return f"{row['name']} on {row['store']}"
