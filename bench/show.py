"""A result as tables in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from bench.aims import FLAT, IDLE_MIB, OURS, OVERVIEW_MS, SOAK_GROWTH, flatness, verdicts
from bench.page import COLUMNS


def number(value: float | None) -> str:
    """As many digits as mean something."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def show(document: dict[str, Any]) -> None:
    """The rows beside one another, then what was aimed at."""
    machine = document["machine"]
    title = (
        f"{machine['cores']} cores, {machine['architecture']}, load {machine['load_before']} before; a second, fsync"
    )
    table = Table(title=title)
    table.add_column("queue", no_wrap=True)
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right")
    for row in document["rows"]:
        style = "bold" if row["name"].startswith(OURS) else None
        cells = [number(row.get(name)) for name in COLUMNS]
        table.add_row(f"{row['name']} on {row['store']}", *cells, style=style)
    console = Console(width=170)
    console.print(table)
    console.print("What becomes of a job whose worker dies:")
    for row in document["rows"]:
        console.print(f"  {row['name']} on {row['store']}: {row.get('error') or row['promise']}")
    aims = Table(title="What was aimed at")
    for heading in ("aim", "against", "at least", "found", ""):
        aims.add_column(heading)
    for verdict in verdicts(document["rows"]):
        met = "met" if verdict.met else "missed"
        aims.add_row(verdict.aim, verdict.against, f"{verdict.least:g} times", f"{verdict.ratio:.2f} times", met)
    console.print(aims)


def show_growth(document: dict[str, Any]) -> None:
    """Each curve as one line, and how much more a row costs at its worst size than at the best smaller one."""
    table = Table(title=f"Rows claimed and settled a second, load {document['machine']['load_before']} before")
    for heading in (
        "pipe",
        "database",
        "what grows",
        "at each size",
        "worst cost to least before",
        f"aim {1 / FLAT:.2f}",
    ):
        table.add_column(heading)
    for curve in document["curves"]:
        triples = zip(curve["sizes"], curve["rates"], curve["microseconds"], strict=True)
        sizes = "  ".join(f"{size:,}: {rate:,.0f} ({cost:.0f} us)" for size, rate, cost in triples)
        flat = flatness(curve)
        met = "met" if flat >= FLAT else "missed"
        table.add_row(curve["pipe"], curve["store"], curve["axis"], sizes, f"{1 / flat:.2f}", met)
    Console(width=150).print(table)


def show_soak(document: dict[str, Any]) -> None:
    samples = document["samples"]
    print(f"idle {document['idle_mib']:.1f} MiB (aim: below {IDLE_MIB})")
    print(
        f"{document['requests']:,} requests in {samples[-1][0] / 60:.1f} minutes: {samples[0][1]:.1f} MiB at first, "
        f"{samples[-1][1]:.1f} at last; last quarter to second quarter {document['growth']:.3f} (aim: at most {SOAK_GROWTH})"
    )


def show_overview(document: dict[str, Any]) -> None:
    """Each page on each database, and whether it came within the time an operator is promised."""
    table = Table(title=f"Pages of the dashboard, load {document['machine']['load_before']} before; milliseconds")
    for heading in ("page", "database", "messages", "first", "median", "worst", f"aim {OVERVIEW_MS}"):
        table.add_column(heading)
    for look in document["looks"]:
        met = "met" if max(look["first_ms"], look["median_ms"]) < OVERVIEW_MS else "missed"
        times = (number(look[name]) for name in ("first_ms", "median_ms", "worst_ms"))
        table.add_row(look["page"], look["store"], f"{look['messages']:,}", *times, met)
    Console(width=150).print(table)
