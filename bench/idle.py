"""How soon a job can begin at all: our quickest pipe and the quickest others beside two bare processes on the same stores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.processes import Failed, Reports
from bench.rows import ROWS, Row
from bench.stores import Stores
from bench.table import FULL, QUICK, latency

BARE = "two bare processes"
TURNS = 3
_BESIDE = (
    "Pillarbox hooks on sqlite",
    "Pillarbox hooks on postgres",
    "PgQueuer on postgres",
    "SAQ on redis",
    "FastStream on nats",
)
_ROWS = (
    Row(BARE, "sqlite", "bench.bare.sqlite", "none"),
    Row(BARE, "postgres", "bench.bare.postgres", "none"),
    *(row for row in ROWS if row.key in _BESIDE),
)


def measure_all(folder: Path, *, quick: bool) -> Iterator[list[dict[str, Any]]]:
    """The rows as far as they have come: each in turn, and then again; the middle of the turns counts."""
    stores, reports = Stores(folder), Reports(folder)
    turns: dict[Row, list[dict[str, float]]] = {row: [] for row in _ROWS}
    try:
        for turn in range(1 if quick else TURNS):
            for row in _ROWS:
                print(f"{row.key}, turn {turn + 1} ...", file=sys.stderr, flush=True)
                try:
                    turns[row].append(latency(row, stores, reports, QUICK if quick else FULL))
                except Failed as failure:
                    print(f"{row.key}: {failure}", file=sys.stderr)
                yield [_middle(row, found) for row, found in turns.items() if found]
    finally:
        reports.close()
        stores.close()


def _middle(row: Row, turns: list[dict[str, float]]) -> dict[str, Any]:
    figures = {name: median(turn[name] for turn in turns) for name in ("p50", "p99", "call", "after")}
    return {"name": row.name, "store": row.store, **figures, "turns": turns}
