"""One table: every queue put to the same work by the same processes, beside what the database itself can do."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.environment import python_for, versions_of
from bench.processes import START, Failed, Found, Reports, held, process, until, workers
from bench.processor import spent_by
from bench.raw import drain_rate, insert_rate, open_raw
from bench.rows import ROWS, Row
from bench.stores import Stores

PINGS = 200


@dataclass(frozen=True, slots=True)
class Size:
    """How long each measurement of a row goes on, and how many jobs end it earlier."""

    seconds: float
    most: int


FULL = Size(4.0, 40_000)
QUICK = Size(1.0, 8_000)


def measure_all(folder: Path, size: Size, *, only: str | None = None) -> Iterator[Found]:
    """Every row in its order; one that cannot be measured says why."""
    stores, reports = Stores(folder), Reports(folder)
    try:
        for kind in ("postgres", "sqlite"):
            if only is None or only.lower() in f"raw on {kind}":
                _say(f"raw on {kind}")
                yield measure_raw(stores, kind, size)
        for row in ROWS:
            if only is None or only.lower() in row.key.lower():
                _say(row.key)
                yield measure(row, stores, reports, size)
    finally:
        reports.close()
        stores.close()


def measure(row: Row, stores: Stores, reports: Reports, size: Size) -> Found:
    found: Found = {"name": row.name, "store": row.store, "promise": row.promise, "load": os.getloadavg()[0]}
    if row.package:
        installed = versions_of(python_for(row.package))
        if row.package not in installed:
            wants = " (it wants Python 3.12 or newer)" if row.package == "oban" else ""
            return found | {"error": f"not installed for Python {installed['python']}{wants}"}
        found["version"] = installed[row.package]
    for part in (_rates, _latency):
        try:
            found |= part(row, stores, reports, size)
        except Failed as failure:
            found["error"] = str(failure)
    return found


def measure_raw(stores: Stores, kind: str, size: Size) -> Found:
    """Plain statements by one thread on the driver: sets of a hundred stand for a hundred callers."""
    count, load = size.most // 2, os.getloadavg()[0]
    with stores.fresh(kind) as url:
        raw = open_raw(url)
        found = {
            "single": insert_rate(raw, count // 20, 1),
            "together": insert_rate(raw, count, 100),
            "bulk": insert_rate(raw, count, 1000),
            "drain1": drain_rate(raw, count, 100),
        }
        raw.close()
    return {"name": "the database itself", "store": kind, "promise": "none", "load": load, **found}


def _rates(row: Row, stores: Stores, reports: Reports, size: Size) -> Found:
    with stores.fresh(row.store) as url:
        put = _put_in(row, "produce", url, size, reports)
        count = int(put.pop("count"))
        with workers(row, url, 1, reports=reports) as started:
            computing = [started[0].pid, *([stores.server] if stores.server else [])]
            put["drain1"], put["cost"] = drained(reports, count, size, computing)
            put["memory"] = held(started[0].pid)
    with stores.fresh(row.store) as url:
        filled = _put_in(row, "fill", url, Size(size.seconds * 2, min(count, size.most)), reports)
        with workers(row, url, 2, reports=reports):
            put["drain2"], _ = drained(reports, int(filled["count"]), size, [])
    return put


def _put_in(row: Row, role: str, url: str, size: Size, reports: Reports) -> dict[str, float]:
    with process(row, "prepare", url, reports=reports) as preparing:
        preparing.finish()
    with process(row, role, url, size.seconds, size.most, reports=reports) as producing:
        answer: dict[str, float] = json.loads(producing.line(START + 6 * size.seconds))
        return answer


def drained(reports: Reports, count: int, size: Size, computing: list[int]) -> tuple[float, float]:
    """Jobs begun a second, from the first on until there are no more or the time is over, and the microseconds that these
    processes computed for each."""
    seen = reports.wait(START)
    if not seen:
        raise Failed("work: no job began in time")
    deadline = seen[0][1] + size.seconds
    before, spent = len(seen), sum(map(spent_by, computing))
    while len(seen) < count and (more := reports.wait(until(deadline))):
        seen += more
        if seen[-1][1] > deadline:
            break
    cost = (sum(map(spent_by, computing)) - spent) / max(1, len(seen) - before) * 1e6
    began = sorted(began for _, began in seen)
    return (len(began) - 1) / (began[-1] - began[0]), cost


def _latency(row: Row, stores: Stores, reports: Reports, size: Size) -> Found:
    """Milliseconds from the call that enqueues until the job begins, one at a time on an idle queue."""
    waits: list[float] = []
    with stores.fresh(row.store) as url:
        with process(row, "prepare", url, reports=reports) as preparing:
            preparing.finish()
        with workers(row, url, 1, reports=reports), process(row, "ping", url, reports=reports) as pinging:
            pinging.line()
            # The first takes the ways that only the first takes, and is not counted.
            for number in range(PINGS + 1):
                pinging.tell()
                came = reports.wait(START)
                if not came:
                    raise Failed("work: a job at low load did not begin in time")
                if number:
                    waits.append((came[0][1] - came[0][0]) * 1000)
                else:
                    ends = time.monotonic() + size.seconds * 2
                if time.monotonic() > ends:
                    break
    waits.sort()
    return {"p50": median(waits), "p99": waits[int(len(waits) * 0.99)], "pings": len(waits)}


def _say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)
