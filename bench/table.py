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
from bench.processes import START, Failed, Found, Process, Reports, held, process, until, workers
from bench.processor import spent_by
from bench.raw import drain_rate, insert_rate, open_raw
from bench.rows import ROWS, Row
from bench.settled import settled
from bench.stores import Stores

PINGS = 200


@dataclass(frozen=True, slots=True)
class Size:
    """How long each measurement of a row goes on, how many jobs end it earlier, and how many turns those take that take them."""

    seconds: float
    most: int
    turns: int = 1


FULL = Size(4.0, 40_000, turns=3)
QUICK = Size(1.0, 8_000)


def named(only: str | None) -> tuple[list[str], list[Row]]:
    """The databases to measure by themselves, and the queues, that have this in their names."""
    wanted = (only or "").lower()
    raw = [kind for kind in ("postgres", "sqlite") if wanted in f"raw on {kind}"]
    return raw, [row for row in ROWS if wanted in row.key.lower()]


def measure_all(folder: Path, size: Size, *, only: str | None = None) -> Iterator[list[Found]]:
    """The table as far as it has come, after each row and each further turn; a row that cannot be measured says why."""
    stores, reports = Stores(folder), Reports(folder)
    raw, queues = named(only)
    table: list[Found] = []
    try:
        for kind in raw:
            _say(f"raw on {kind}")
            table.append(measure_raw(stores, kind, size))
            yield table
        found: dict[Row, Found] = {}
        for row in queues:
            _say(row.key)
            found[row] = measure(row, stores, reports, size)
            table.append(found[row])
            yield table
        for turn in range(2, size.turns + 1):
            for row in queues:
                if row.takes_turns and "drains" in found[row]:
                    _say(f"{row.key}, turn {turn}")
                    take_turn(row, found[row], stores, reports, size)
                    yield table
    finally:
        reports.close()
        stores.close()


def measure(row: Row, stores: Stores, reports: Reports, size: Size) -> Found:
    found: Found = {"name": row.name, "store": row.store, "promise": row.promise, "load": os.getloadavg()[0]}
    found["at_once"] = row.at_once()
    if row.package:
        installed = versions_of(python_for(row.package))
        if row.package not in installed:
            wants = " (it wants Python 3.12 or newer)" if row.package == "oban" else ""
            return found | {"error": f"not installed for Python {installed['python']}{wants}"}
        found["version"] = installed[row.package]
    for part in (_rates, latency):
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
    del put["count"]
    with stores.fresh(row.store) as url:
        # Each drain is of a queue that was just filled, in the quickest way there is, as those of the turns are.
        count = _fill(row, url, size, reports)
        with workers(row, url, 1, reports=reports) as started:
            drains = [drained(row, url, reports, count, size, _computing(started[0], stores))]
            memory = held(started[0].pid)
    with stores.fresh(row.store) as url:
        count = _fill(row, url, size, reports)
        with workers(row, url, 2, reports=reports):
            drain2 = drained(row, url, reports, count, size, {})["rate"]
    return {**put, **of_turns(drains), "drain2": drain2, "memory": memory}


def take_turn(row: Row, found: Found, stores: Stores, reports: Reports, size: Size) -> None:
    """Measure the drain by one process and the idle latency once more; what is in the middle of all turns counts."""
    try:
        with stores.fresh(row.store) as url:
            count = _fill(row, url, size, reports)
            with workers(row, url, 1, reports=reports) as started:
                drain = drained(row, url, reports, count, size, _computing(started[0], stores))
        waits = latency(row, stores, reports, size)
    except Failed as failure:
        found["error"] = str(failure)
    else:
        found |= of_turns([*found["drains"], drain])
        found |= of_waits([*found.get("waits", [{name: found[name] for name in waits}]), waits])


def of_turns(drains: list[Found]) -> Found:
    """The columns that come from one drain or several: the median of each, and the drains themselves."""
    middle = {name: median(drain[name] for drain in drains) for name in drains[0]}
    costs = {name: cost for name, cost in middle.items() if name != "rate"}
    return {"drain1": middle["rate"], **costs, "drains": drains}


def of_waits(turns: list[Found]) -> Found:
    """The columns that come from one look at the idle latency or several: the median of each, and the looks themselves."""
    return {name: median(turn[name] for turn in turns) for name in turns[0]} | {"waits": turns}


def _computing(worker: Process, stores: Stores) -> dict[str, int]:
    return {"worker": worker.pid} | ({"server": stores.server} if stores.server else {})


def _fill(row: Row, url: str, size: Size, reports: Reports) -> int:
    return int(_put_in(row, "fill", url, Size(size.seconds * 2, size.most), reports)["count"])


def _put_in(row: Row, role: str, url: str, size: Size, reports: Reports) -> dict[str, float]:
    with process(row, "prepare", url, reports=reports) as preparing:
        preparing.finish()
    with process(row, role, url, size.seconds, size.most, reports=reports) as producing:
        answer: dict[str, float] = json.loads(producing.line(START + 6 * size.seconds))
        return answer


def drained(row: Row, url: str, reports: Reports, count: int, size: Size, computing: dict[str, int]) -> Found:
    """Jobs a second until there are no more or the time is over, and the microseconds that these processes computed for
    each job, one by one and together.

    Of others, from the first job that begins to the last that does. We hold many more at once, and what is claimed before
    the first and settled after the last is work too: ours count from the first look to the last that is settled.
    """
    seen = [] if row.pipe else reports.wait(START)
    began = reports.looking(START) if row.pipe else min((began for _, began in seen), default=0.0)
    before, spent = len(seen), {name: spent_by(pid) for name, pid in computing.items()}
    while len(seen) < count and (more := reports.wait(until(began + size.seconds))):
        seen += more
    if not seen:
        raise Failed("work: no job began in time")
    if row.pipe:
        done, ended = settled(url, row.pipe, count, waiting=START if len(seen) == count else 0)
    else:
        done, ended = len(seen) - 1, max(began for _, began in seen)
    jobs = max(1, len(seen) - before)
    costs = {f"cost_{name}": (spent_by(pid) - spent[name]) / jobs * 1e6 for name, pid in computing.items()}
    return {"rate": done / (ended - began), "cost": sum(costs.values()), **costs}


def latency(row: Row, stores: Stores, reports: Reports, size: Size) -> Found:
    """Milliseconds from the call that enqueues until the job begins, one at a time on an idle queue, and how many of them
    the call took, and went by after its answer."""
    waits: list[float] = []
    calls: list[float] = []
    afterwards: list[float] = []
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
                (sent, began), answered = came[0], float(pinging.line())
                if number:
                    waits.append((began - sent) * 1000)
                    calls.append((answered - sent) * 1000)
                    afterwards.append((began - answered) * 1000)
                else:
                    ends = time.monotonic() + size.seconds * 2
                if time.monotonic() > ends:
                    break
    waits.sort()
    return {
        "p50": median(waits),
        "p99": waits[int(len(waits) * 0.99)],
        "call": median(calls),
        "after": median(afterwards),
        "pings": len(waits),
    }


def _say(what: str) -> None:
    print(f"{what} ...", file=sys.stderr, flush=True)
