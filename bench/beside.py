"""The sections of docs/benchmarks.md that show us beside other queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bench.aims import OURS, Verdict, latencies, unmeasured, verdicts
from bench.causes import Causes
from bench.idle import BARE
from bench.table import FULL, QUICK

Row = dict[str, Any]
COLUMNS = {
    "at_once": "jobs at once",
    "single": "enqueue, 1 caller",
    "together": "enqueue, 100 callers",
    "bulk": "enqueue, bulk",
    "drain1": "drain, 1 process",
    "drain2": "drain, 2 processes",
    "cost": "processor, µs a job",
    "cost_worker": "of it the worker",
    "cost_server": "of it the server",
    "memory": "memory, MiB",
    "load": "load before",
}
WAITS = {"p50": "p50, ms", "p99": "p99, ms", "call": "the call, ms", "after": "from its answer on, ms"}
NOT_MEASURED = "not measured"


def number(value: float | str | None) -> str:
    """As many digits as mean something."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cell(row: Row, column: str) -> str:
    """What stands in a column: a figure, nothing where there is nothing to measure, or that it was not measured."""
    if column in row:
        return number(row[column])
    return "" if "error" not in row and _has_none(row, column) else NOT_MEASURED


def waits_cell(verdict: Verdict) -> str:
    return f"{verdict.ratio:.2f}, {'met' if verdict.met else 'missed'}"


def by_peer(rows: list[Row]) -> dict[str, list[Verdict]]:
    """Whom idle latency is held against, and how each of our pipes does."""
    found: dict[str, list[Verdict]] = {}
    for verdict in latencies(rows):
        found.setdefault(verdict.against, []).append(verdict)
    return found


def table_lines(document: Row, causes: Causes) -> Iterator[str]:
    rows: list[Row] = document["rows"]
    yield (
        "Each is driven by processes of its own, as its documentation says: one that enqueues, one or two that work off a no-op. "
        f"Rates are a second, {_effort(document)}. {_turns(rows)} Jobs at once is how many a worker has under way, as set in "
        "`bench/peers` and `bench/ours` (`1 of 64`: it fetches 64 and runs them one by one; `500 by 32`: of 500 sessions "
        "the next 32 events each). The drain of others counts from the first job that begins to the last that does; ours, "
        "which has more under way, from the first look for jobs until the tables say that the last is settled. The database "
        "itself is one thread that inserts, or claims and settles, one set of a hundred after the other. Processor is what the "
        "one worker and the store's server compute for a job of its drain, which other work on the machine stretches less than "
        "the rates; SQLite computes in the worker. Memory is that of the worker after it; load is the machine's when the row's "
        "turn came. A blank is something that a queue does not have.\n"
    )
    yield "| queue | " + " | ".join(COLUMNS.values()) + " |"
    yield "| --- |" + " ---: |" * len(COLUMNS)
    for row in rows:
        yield "| " + " | ".join([_title(row), *(cell(row, column) for column in COLUMNS)]) + " |"
    yield "\nWhat becomes of a job whose worker dies:\n"
    for row in rows:
        if row.get("promise") != "none":
            yield f"- {row['name']} on {row['store']}: {row.get('error') or row['promise']}."
    yield "\n| aim | against | at least | found | |"
    yield "| --- | --- | ---: | ---: | --- |"
    for verdict in verdicts(rows):
        told = "met" if verdict.met else f"missed: {_cause(verdict, rows, causes)}"
        yield f"| {verdict.aim} | {verdict.against} | {verdict.least:g} | {verdict.ratio:.2f} | {told} |"
    for row in unmeasured(rows):
        yield f"| every aim | {row['name']} on {row['store']} | | | not measured: {row['error']} |"


def latency_lines(document: Row, causes: Causes) -> Iterator[str]:
    rows: list[Row] = document["rows"]
    found = by_peer(rows)
    ours = [row for row in rows if row["name"].startswith(OURS)]
    yield "\n### Idle latency\n"
    yield (
        "One job at a time on an idle queue, from the call that enqueues in one process until the job begins in the other: in "
        "the middle of up to 200, and at the 99th percentile. Then how long the call itself took, and how long after its answer "
        "the job began, each in the middle; less than nothing where it began sooner. The aim is to be below every other "
        "queue: the last columns are its p50 divided by ours, at least 1.\n"
    )
    headings = [*WAITS.values(), *(_short(row) for row in ours)]
    yield "| queue | " + " | ".join(headings) + " |"
    yield "| --- |" + " ---: |" * len(headings)
    for row in rows:
        if row.get("promise") != "none":
            beside = found.get(f"{row['name']} on {row['store']}", [])
            ratios = {_short(verdict.ours): waits_cell(verdict) for verdict in beside}
            missing = "" if row in ours else NOT_MEASURED
            cells = [*(cell(row, name) for name in WAITS), *(ratios.get(_short(each), missing) for each in ours)]
            yield "| " + " | ".join([_title(row), *cells]) + " |"
    missed = [verdict for beside in found.values() for verdict in beside if not verdict.met]
    if missed:
        yield "\nWhat misses it, and why:\n"
    for row in ours:
        slower = [verdict for verdict in missed if verdict.ours is row]
        if slower:
            quickest = min(slower, key=lambda verdict: verdict.ratio)
            names = ", ".join(verdict.against for verdict in slower)
            yield f"- {_short(row)}, behind {names}: {_cause(quickest, rows, causes)}."


def idle_lines(document: Row) -> Iterator[str]:
    """What the stores themselves take, which no queue on them can be below."""
    rows: list[Row] = sorted(document["rows"], key=lambda row: float(row["p50"]))
    yield (
        "Idle latency once more, by the same processes, of our quickest pipe and the quickest others beside two bare processes: "
        "one inserts a row and commits, the other is woken by a datagram (SQLite) or a notification of the same statement "
        "(PostgreSQL), marks the row and commits. No queue that puts two commits between a call and its job can be quicker on "
        "that store, from Python; events on SQLite have one, with which they are stored and claimed. Each is measured in turn "
        "several times, and the middle counts.\n"
    )
    yield "| who | " + " | ".join(WAITS.values()) + " |"
    yield "| --- |" + " ---: |" * len(WAITS)
    for row in rows:
        yield "| " + " | ".join([_title(row), *(cell(row, name) for name in WAITS)]) + " |"
    bare = {row["store"]: row["p50"] for row in rows if row["name"] == BARE}
    shares = [
        f"{bare[row['store']]:.2f} beside our {row['p50']:.2f} ms on {row['store']}"
        for row in rows
        if row["name"].startswith(OURS) and row["store"] in bare
    ]
    yield (
        f"\nSo store and wake-up by themselves take {' and '.join(shares)}. What we add is an event loop, the threads that the "
        "database is used from, the session's strand with its lease and token, and checks of what comes in. It counts while a "
        "queue is idle; under load it is shared by hundreds of jobs."
    )


def _cause(verdict: Verdict, rows: list[Row], causes: Causes) -> str:
    """With our figures and theirs, what follows from both, and what commits on the same store take by themselves."""
    ours, theirs = verdict.ours, verdict.theirs
    made: dict[str, float] = {}
    if "single" in ours:
        made["busy_call"] = 1000 / ours["single"]
    if "caller_cost" in ours:
        made["ceiling"] = 1e6 / ours["caller_cost"]
    if "cost" in ours and "cost" in theirs:
        made["processor"] = theirs["cost"] / ours["cost"]
    for row in rows:
        if row.get("promise") == "none" and row["store"] == ours["store"]:
            made |= {"commit": 1000 / row["single"], "two": 2000 / row["single"], "three": 3000 / row["single"]}
    return causes.of(f"{verdict.aim} / {verdict.against}", ours=ours, theirs=theirs, made=made)


def _effort(document: Row) -> str:
    size = QUICK if "--quick" in document["command"] else FULL
    return f"each measured for at most {size.seconds:g} s or {size.most:,} jobs"


def _turns(rows: Iterable[Row]) -> str:
    several = [row for row in rows if len(row.get("drains", ())) > 1]
    if not several:
        return "Each is measured once."
    names = [f"{row['name']} on {row['store']}" for row in several if not row["name"].startswith(OURS)]
    return (
        f"The drain by one process, and the idle latency, of ours{''.join(f', of {name}' for name in names)} are measured "
        f"{max(len(row['drains']) for row in several)} times in turn, and the median of each figure counts; all else is "
        "measured once."
    )


def _has_none(row: Row, column: str) -> bool:
    """The database itself is driven by one thread; not every queue takes jobs in bulk; SQLite has no server."""
    if row.get("promise") == "none":
        return True
    return column == "bulk" or (column == "cost_server" and row["store"] == "sqlite")


def _title(row: Row) -> str:
    mark = "**" if row["name"].startswith(OURS) else ""
    version = f" {row['version']}" if "version" in row else ""
    return f"{mark}{row['name']}{version} on {row['store']}{mark}"


def _short(row: Row) -> str:
    return f"{row['name'].removeprefix(f'{OURS} ')} on {row['store']}"
