"""A result as tables in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bench.aims import (
    FLAT,
    IDLE_MB,
    OURS,
    OVERVIEW_MS,
    SOAK_GROWTH,
    by_the_clock,
    flatness,
    megabytes,
    unmeasured,
    verdicts,
)
from bench.beside import COLUMNS, WAITS, by_peer, cell, number, waits_cell

Document = dict[str, Any]


def show(document: Document) -> None:
    """The rows beside one another, then what was aimed at."""
    machine = document["machine"]
    load = f"load {machine['load_before']} before"
    console = Console(width=170)
    console.print(
        _rows(document, COLUMNS, f"{machine['cores']} cores, {machine['architecture']}, {load}; a second, fsync")
    )
    console.print(_rows(document, WAITS, "Idle latency, from the call that enqueues until the job begins"))
    console.print("What becomes of a job whose worker dies:")
    for row in document["rows"]:
        if row.get("promise") != "none":
            console.print(f"  {row['name']} on {row['store']}: {row.get('error') or row['promise']}")
    for table in (_aims(document), _latencies(document)):
        if table.row_count:
            console.print(table)
    for row in unmeasured(document["rows"]):
        console.print(f"No aim is held against {row['name']} on {row['store']}: {row['error']}")


def _rows(document: Document, columns: dict[str, str], title: str) -> Table:
    table = Table(title=title)
    table.add_column("queue", no_wrap=True)
    for heading in columns.values():
        table.add_column(heading, justify="right")
    for row in document["rows"]:
        style = "bold" if row["name"].startswith(OURS) else None
        table.add_row(f"{row['name']} on {row['store']}", *(cell(row, name) for name in columns), style=style)
    return table


def _aims(document: Document) -> Table:
    table = Table(title="What was aimed at")
    for heading in ("aim", "against", "at least", "found", ""):
        table.add_column(heading)
    for verdict in verdicts(document["rows"]):
        met = "met" if verdict.met else "missed"
        table.add_row(verdict.aim, verdict.against, f"{verdict.least:g} times", f"{verdict.ratio:.2f} times", met)
    return table


def _latencies(document: Document) -> Table:
    """A line for each peer, a column for each of ours."""
    table = Table(title="Their idle latency (p50) divided by ours, aimed at 1 or more")
    table.add_column("against")
    found = by_peer(document["rows"])
    for verdict in next(iter(found.values()), []):
        table.add_column(f"{verdict.ours['name'].removeprefix(f'{OURS} ')} on {verdict.ours['store']}")
    for peer, beside in found.items():
        table.add_row(peer, *map(waits_cell, beside))
    return table


def show_growth(document: Document) -> None:
    """Each curve as one line, and how much more a row costs at its worst size than at the best smaller one."""
    table = Table(title=f"Rows claimed and settled a second, load {document['machine']['load_before']} before")
    for heading in (
        "pipe",
        "database",
        "what grows",
        "at each size",
        "rate at the largest size to the best before",
        "worst cost to least before",
        f"aim {1 / FLAT:.2f}",
    ):
        table.add_column(heading)
    for curve in document["curves"]:
        triples = zip(curve["sizes"], curve["rates"], curve["microseconds"], strict=True)
        sizes = "  ".join(f"{size:,}: {rate:,.0f} ({cost:.0f} us)" for size, rate, cost in triples)
        flat = flatness(curve)
        met = "met" if flat >= FLAT else "missed"
        ratios = (f"{by_the_clock(curve):.2f}", f"{1 / flat:.2f}")
        table.add_row(curve["pipe"], curve["store"], curve["axis"], sizes, *ratios, met)
    Console(width=150).print(table)


def show_idle(document: Document) -> None:
    """Who begins how soon; a peer that is not installed is not among them."""
    load = document["machine"]["load_before"]
    Console(width=150).print(_rows(document, WAITS, f"Idle latency, the middle of the turns, load {load} before"))


def show_soak(document: Document) -> None:
    samples = document["samples"]
    print(f"idle {megabytes(document['idle_mib']):.1f} MB (aim: below {IDLE_MB})")
    print(
        f"{document['requests']:,} requests in {samples[-1][0] / 60:.1f} minutes: {samples[0][1]:.1f} MiB at first, "
        f"{samples[-1][1]:.1f} at last; last quarter to second quarter {document['growth']:.3f} (aim: at most {SOAK_GROWTH})"
    )


def show_overview(document: Document) -> None:
    """Each page on each database, and whether the overview came within the time an operator is promised."""
    table = Table(title=f"Pages of the dashboard, load {document['machine']['load_before']} before; milliseconds")
    for heading in ("page", "database", "messages", "first", "median", "worst", f"aim {OVERVIEW_MS}"):
        table.add_column(heading)
    for look in document["looks"]:
        met = "met" if max(look["first_ms"], look["worst_ms"]) < OVERVIEW_MS else "missed"
        times = (number(look[name]) for name in ("first_ms", "median_ms", "worst_ms"))
        aim = met if look["page"] == "overview" else ""
        table.add_row(look["page"], look["store"], f"{look['messages']:,}", *times, aim)
    Console(width=150).print(table)


def show_incident(document: Document) -> None:
    times = ", ".join(f"{name} {milliseconds:.1f} ms" for name, milliseconds in document["receipt_ms"].items())
    print(f"{document['receipts']:,} receipts while every call took {document['call_seconds']:g} s: {times}")
    print(f"the voice message was delivered by the last of {document['attempts_of_the_voice_message']} attempts")
