"""Writes docs/benchmarks.md and its pictures from the result files; with --check it only says what differs.

What misses its aim stands there with its cause, so a result that misses one which `docs/results/bench-causes.json` does not
explain cannot be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.aims import FLAT, IDLE_MIB, OURS, SOAK_GROWTH, flatness, unmeasured, verdicts
from bench.picture import chart
from bench.table import FULL, QUICK

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "benchmarks.md"

COLUMNS = {
    "single": "enqueue, 1 caller",
    "together": "enqueue, 100 callers",
    "bulk": "enqueue, bulk",
    "drain1": "drain, 1 process",
    "drain2": "drain, 2 processes",
    "cost": "processor, µs a job",
    "p50": "idle p50, ms",
    "p99": "idle p99, ms",
    "memory": "memory, MiB",
    "load": "load before",
}
AXES = {
    "pending": "rows that wait",
    "delivered": "rows that were delivered and are kept",
    "keys": "sessions, or tenants of the outbound queue",
    "scheduled": "rows that wait for a later time",
}
INTRO = """# Benchmarks

What one machine does, and what others do on it in the same run. Every queue here writes to disk before it answers: PostgreSQL
with `fsync` and `synchronous_commit` on, SQLite with `synchronous=FULL`, Redis with `appendfsync always`, NATS JetStream with
`sync_interval: always`. The page is written from the files in `docs/results` by `.venv/bin/python -m bench.page`; each file names
the seed, the commit, the machine, the versions, and how busy the machine was before. Absolute figures are worth as much as the
machine was idle; what counts are the ratios within one run.

To measure for yourself, `make bench` installs what it needs (the other queues and their servers) and measures the first table;
`make bench QUICK=1` gives an impression of it in a fraction of the time. After that the commands named below work too, with
`.venv/bin/python` in the place of `python`.

`pillarbox bench` gives you the short form of this for your own machine and database, without touching your rows.
"""


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class Causes:
    """Why something misses its aim."""

    def __init__(self, path: Path) -> None:
        self._causes: dict[str, str] = json.loads(path.read_text())

    def of(self, what: str, **measured: object) -> str:
        """The cause, with what was measured where it names that."""
        for beginning, cause in self._causes.items():
            if what.startswith(beginning):
                return cause.format(**measured)
        raise LookupError(f"{what} misses its aim; write its cause into docs/results/bench-causes.json")


def circumstances(document: dict[str, Any]) -> str:
    machine, versions = document["machine"], document["versions"]
    installed = ", ".join(f"{name} {version}" for name, version in versions.items())
    commit = f"`{document['commit'][:12]}`{' and changes' if 'changes' in document['commit'] else ''}"
    return (
        f"`{document['command']}`, seed {document['seed']}, commit {commit}, {machine['cores']} cores "
        f"{machine['architecture']}, {machine['memory_mib'] // 1024} GiB, {machine['disk']}, load {machine['load_before']} "
        f"before it began; {installed}."
    )


def table_section(document: dict[str, Any], causes: Causes) -> Iterator[str]:
    yield "## Beside other queues\n"
    yield circumstances(document) + "\n"
    yield (
        "Each is driven by processes of its own, as its documentation says: one that enqueues, one or two that work off a no-op. "
        f"Rates are a second, each measured once, {_effort(document)}. Idle latency is from the call that enqueues in "
        "one process until the job begins in the other. Processor is what the one "
        "worker and the store's server compute for a job of its drain, which other work on the machine stretches less than the "
        "rates; memory is that of the worker after it; load is the machine's when the row's turn came. A blank is something that "
        "a queue does not have.\n"
    )
    yield "| queue | " + " | ".join(COLUMNS.values()) + " |"
    yield "| --- |" + " ---: |" * len(COLUMNS)
    for row in document["rows"]:
        mark = "**" if row["name"].startswith(OURS) else ""
        version = f" {row['version']}" if "version" in row else ""
        cells = [f"{mark}{row['name']}{version} on {row['store']}{mark}", *(number(row.get(name)) for name in COLUMNS)]
        yield "| " + " | ".join(cells) + " |"
    yield "\nWhat becomes of a job whose worker dies:\n"
    for row in document["rows"]:
        if row.get("promise") != "none":
            yield f"- {row['name']} on {row['store']}: {row.get('error') or row['promise']}."
    yield "\n| aim | against | at least | found | |"
    yield "| --- | --- | ---: | ---: | --- |"
    for verdict in verdicts(document["rows"]):
        what = f"{verdict.aim} / {verdict.against}"
        told = "met" if verdict.met else f"missed: {causes.of(what, ours=verdict.ours, theirs=verdict.theirs)}"
        yield f"| {verdict.aim} | {verdict.against} | {verdict.least:g} | {verdict.ratio:.2f} | {told} |"

    for row in unmeasured(document["rows"]):
        yield f"| every aim | {row['name']} on {row['store']} | | | not measured: {row['error']} |"


def _effort(document: dict[str, Any]) -> str:
    size = QUICK if document["command"].endswith("--quick") else FULL
    return f"for at most {size.seconds:g} s or {size.most:,} jobs"


def growth_section(documents: list[dict[str, Any]], causes: Causes) -> Iterator[str]:
    yield "\n## Growth\n"
    for document in documents:
        yield circumstances(document) + "\n"
    curves = [curve for document in documents for curve in document["curves"]]
    yield (
        "Rows claimed and settled a second in turns of up to 200, in the middle or the best of several rounds, by how much else "
        "there is in the tables, and in brackets "
        "what one row costs in microseconds of processor, ours and the server's. The aim is that a row costs at no size more "
        f"than {1 / FLAT:.2f} times what it costs at any smaller one. The sizes take turns, so that whatever else the machine "
        "does falls on all of them. It falls on the rates all the same, which sink and rise with it: they show an order of "
        "magnitude, and the cost is what is judged, in the last column but one.\n"
    )
    for axis, name in AXES.items():
        if any(curve["axis"] == axis for curve in curves):
            yield f"![Cost of a row by {name}](pictures/growth-{axis}.svg)\n"
    yield f"| pipe | database | what grows | at each size | worst cost to least before, at most {1 / FLAT:.2f} | |"
    yield "| --- | --- | --- | --- | ---: | --- |"
    for curve in curves:
        triples = zip(curve["sizes"], curve["rates"], curve["microseconds"], strict=True)
        sizes = ", ".join(f"{size:,}: {rate:,.0f} ({cost:.0f})" for size, rate, cost in triples)
        flat = flatness(curve)
        what = f"{curve['axis']} / {curve['pipe']} / {curve['store']}"
        told = "met" if flat >= FLAT else f"missed: {causes.of(what)}"
        yield f"| {curve['pipe']} | {curve['store']} | {AXES[curve['axis']]} | {sizes} | {1 / flat:.2f} | {told} |"


def soak_section(document: dict[str, Any], causes: Causes) -> Iterator[str]:
    samples, idle, grown = document["samples"], document["idle_mib"], document["growth"]
    yield "\n## Memory\n"
    yield circumstances(document) + "\n"
    met = "met" if idle < IDLE_MIB else f"missed: {causes.of('idle memory')}"
    yield f"`pillarbox serve` on SQLite holds {idle:.1f} MiB when idle; the aim is below {IDLE_MIB}: {met}.\n"
    flat = "met" if grown <= SOAK_GROWTH else f"missed: {causes.of('soak')}"
    yield (
        f"Under {document['requests']:,} requests in {samples[-1][0] / 60:.0f} minutes, spread over inbound, hooks, outbound "
        f"webhooks and inbox, it went from {samples[0][1]:.1f} to {samples[-1][1]:.1f} MiB. The last quarter of the time held "
        f"{grown:.3f} times as much as the second; the aim is at most {SOAK_GROWTH:g}: {flat}.\n"
    )
    yield "![Memory over time](pictures/soak.svg)"


def overview_section(document: dict[str, Any]) -> Iterator[str]:
    yield "\n## The dashboard with a long history\n"
    yield circumstances(document) + "\n"
    yield (
        "How long a page takes to answer, in milliseconds: at the first look of a process, in the middle, and at worst of many "
        "looks. The aim for the overview is 300 with a million messages.\n"
    )
    yield "| page | database | messages | first | median | worst |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for look in document["looks"]:
        times = " | ".join(f"{look[name]:.1f}" for name in ("first_ms", "median_ms", "worst_ms"))
        yield f"| {look['page']} | {look['store']} | {look['messages']:,} | {times} |"


def incident_section(document: dict[str, Any]) -> Iterator[str]:
    times = document["receipt_ms"]
    yield "\n## Receipts while everything else hangs\n"
    yield circumstances(document) + "\n"
    yield (
        f"A chat platform whose every answer takes {document['call_seconds']:g} seconds, a voice message whose delivery hangs "
        f"for five, and {document['receipts']:,} further messages meanwhile, against a real daemon. Receipts took "
        f"{times['p50']:.1f} ms in the middle, {times['p90']:.1f} at the 90th percentile, {times['p99']:.1f} at the 99th, and "
        f"{times['max']:.1f} at worst. The voice message was delivered once."
    )


def pictures(growth: list[dict[str, Any]], soak: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    for axis, name in AXES.items():
        series = {
            f"{curve['pipe']}, {curve['store']}": list(zip(curve["sizes"], curve["microseconds"], strict=True))
            for pipe in ("inbound", "hooks", "outbound")
            for document in growth
            for curve in document["curves"]
            if curve["axis"] == axis and curve["pipe"] == pipe
        }
        if series:
            title = f"Processor time to claim and settle a row, by {name}"
            yield PICTURES / f"growth-{axis}.svg", chart(title, series, across=name, up="µs", logarithmic=True)
    minutes = {"pillarbox serve": [(at / 60, memory) for at, memory in soak["samples"]]}
    drawn = chart("Memory under steady load", minutes, across="minutes", up="MiB", logarithmic=False)
    yield PICTURES / "soak.svg", drawn


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / f"bench-{name}.json").read_text())
    return document


def written() -> dict[Path, str]:
    """Every file that follows from the results, as it should be."""
    table, soak = read("table"), read("soak")
    growth = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("bench-growth*.json"))]
    causes = Causes(RESULTS / "bench-causes.json")
    sections = (
        table_section(table, causes),
        growth_section(growth, causes),
        soak_section(soak, causes),
        overview_section(read("overview")),
        incident_section(json.loads((RESULTS / "incident.json").read_text())),
    )
    text = "\n".join([INTRO, *(line for section in sections for line in section)]) + "\n"
    return {PAGE: text, **dict(pictures(growth, soak))}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; say what differs, and exit with 1 if anything does"
    )
    check = parser.parse_args().check
    try:
        texts = written()
    except LookupError as unexplained:
        sys.exit(str(unexplained))
    different = [file for file, text in texts.items() if not file.exists() or file.read_text() != text]
    for file in different:
        print(file.relative_to(ROOT))
        if not check:
            file.parent.mkdir(exist_ok=True)
            file.write_text(texts[file])
    if check and different:
        sys.exit("run `.venv/bin/python -m bench.page`")


if __name__ == "__main__":
    main()
