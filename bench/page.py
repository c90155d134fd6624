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

from bench.aims import FLAT, IDLE_MB, OVERVIEW_MS, SOAK_GROWTH, by_the_clock, flatness, megabytes
from bench.beside import idle_lines, latency_lines, table_lines
from bench.causes import Causes
from bench.overview import MESSAGES as MANY
from bench.overview import OF_NOTHING
from bench.picture import chart

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PICTURES = ROOT / "docs" / "pictures"
PAGE = ROOT / "docs" / "benchmarks.md"

REMEMBERED = "remembered"
"""What grows for the inbox, in which a row is a key."""
AXES = {
    "pending": "rows that wait",
    "delivered": "rows that were delivered and are kept",
    "keys": "sessions, or tenants of the outbound queue",
    "scheduled": "rows that wait for a later time",
    REMEMBERED: "keys that were processed and are remembered",
}
CALLED_BEFORE = {"an error that nothing has": OF_NOTHING}
"""What older results call a page."""
INTRO = """# Benchmarks

What one machine does, and what others do on it in the same run. Every queue here writes to disk before it answers: PostgreSQL
with `fsync` and `synchronous_commit` on, SQLite with `synchronous=FULL`, Redis (or Valkey) with `appendfsync always`, NATS
JetStream with `sync_interval: always`. The page is written from the files in `docs/results` by
`.venv/bin/python -m bench.page`; each file names the seed, the commit, the machine, the versions, and how busy the machine was
before. The seed is the same in every run: all it sets is how long to wait between two jobs at low load. Absolute figures are
worth as much as the machine was idle; what counts are the ratios within one run.

To measure for yourself, `make bench` installs what it needs (the other queues and their servers) and measures the first table;
`make bench QUICK=1` gives an impression of it in a fraction of the time. After that the commands named below work too, with
`.venv/bin/python` in the place of `python`.

`pillarbox bench` gives you the short form of this for your own machine and database, without touching your rows.
"""


def circumstances(document: dict[str, Any]) -> str:
    machine, versions = document["machine"], document["versions"]
    installed = ", ".join(f"{name} {version}" for name, version in versions.items())
    commit = f"`{document['commit'][:12]}`{' and changes' if 'changes' in document['commit'] else ''}"
    model = f" ({machine['processor']})" if "processor" in machine else ""
    took = f", {document['minutes']:g} minutes" if "minutes" in document else ""
    return (
        f"`{document['command']}`{took}, seed {document['seed']}, commit {commit}, {machine['cores']} cores "
        f"{machine['architecture']}{model}, {machine['memory_mib'] // 1024} GiB, {machine['disk']}, load "
        f"{machine['load_before']} before it began; {installed}."
    )


def table_section(document: dict[str, Any], causes: Causes) -> Iterator[str]:
    yield "## Beside other queues\n"
    yield circumstances(document) + "\n"
    yield from table_lines(document, causes)
    yield from latency_lines(document, causes)


def idle_section(document: dict[str, Any]) -> Iterator[str]:
    yield "\n### What the stores themselves take\n"
    yield circumstances(document) + "\n"
    yield from idle_lines(document)


def growth_section(documents: list[dict[str, Any]], causes: Causes) -> Iterator[str]:
    yield "\n## Growth\n"
    for document in documents:
        yield circumstances(document) + "\n"
    curves = [curve for document in documents for curve in document["curves"]]
    kept = {document.get("of_rounds", "middle or the best") for document in documents}
    late = sum(by_the_clock(curve) < FLAT for curve in curves)
    dear = sum(flatness(curve) < FLAT for curve in curves)
    yield (
        f"Rows claimed and settled a second in turns of up to 200, in the {' or the '.join(sorted(kept))} of several rounds, by "
        "how much else there is in the tables, and in brackets what one row costs in microseconds of processor, ours and the "
        f"server's. The aim is growth that is flat within 20 %, which is a rate of {FLAT:g} or a cost of {1 / FLAT:.2f} times "
        "what it was. It is judged by the cost: a row may cost at no size more than that beside any smaller one. The rates "
        "of one run sink and rise with whatever else the machine does, although the sizes take turns; how the one at the "
        "largest size compares with the best at a smaller one stands beside it. Runs are compared with nothing but "
        "themselves: each was of the commit that stands there, at another hour of the machine. Of "
        f"{len(curves)} curves {dear} miss by the cost, and {late} would by the clock, with less than {FLAT:g} there.\n"
    )
    if any(curve["axis"] == REMEMBERED for curve in curves):
        yield "A row of the inbox is a new key that is begun and marked, in two transactions.\n"
    for axis, name in AXES.items():
        if any(curve["axis"] == axis for curve in curves):
            yield f"![Cost of a row by {name}](pictures/growth-{axis}.svg)\n"
    yield (
        "| pipe | database | what grows | run | at each size | rate at the largest size to the best before | "
        f"worst cost to least before, at most {1 / FLAT:.2f} | |"
    )
    yield "| --- | --- | --- | --- | --- | ---: | ---: | --- |"
    for run in documents:
        for curve in run["curves"]:
            triples = zip(curve["sizes"], curve["rates"], curve["microseconds"], strict=True)
            sizes = ", ".join(f"{size:,}: {rate:,.0f} ({cost:.0f})" for size, rate, cost in triples)
            flat, what = flatness(curve), f"{curve['axis']} / {curve['pipe']} / {curve['store']}"
            told = "met" if flat >= FLAT else f"missed: {causes.of(what)}"
            yield (
                f"| {curve['pipe']} | {curve['store']} | {AXES[curve['axis']]} | `{run['commit'][:12]}` | {sizes} | "
                f"{by_the_clock(curve):.2f} | {1 / flat:.2f} | {told} |"
            )


def soak_section(document: dict[str, Any], causes: Causes) -> Iterator[str]:
    samples, idle, grown = document["samples"], document["idle_mib"], document["growth"]
    yield "\n## Memory\n"
    yield circumstances(document) + "\n"
    met = "met" if megabytes(idle) < IDLE_MB else f"missed: {causes.of('idle memory')}"
    held = f"{megabytes(idle):.1f} MB ({idle:.1f} MiB)"
    yield f"`pillarbox serve` on SQLite holds {held} when idle; the aim is below {IDLE_MB} MB: {met}.\n"
    flat = "met" if grown <= SOAK_GROWTH else f"missed: {causes.of('soak')}"
    yield (
        f"Under {document['requests']:,} requests in {samples[-1][0] / 60:.0f} minutes, spread over inbound, hooks, outbound "
        f"webhooks and inbox, it went from {samples[0][1]:.1f} to {samples[-1][1]:.1f} MiB. The last quarter of the time held "
        f"{grown:.3f} times as much as the second; the aim is at most {SOAK_GROWTH:g}: {flat}. Both are of SQLite "
        f"alone: `serve` on PostgreSQL was not measured, nor anything longer than these {samples[-1][0] / 60:.0f} minutes.\n"
    )
    yield "![Memory over time](pictures/soak.svg)"


def inbox_section(document: dict[str, Any], causes: Causes) -> Iterator[str]:
    yield "\n## The inbox\n"
    yield circumstances(document) + "\n"
    yield (
        "Keys begun and marked a second, each a new one, in process and over HTTP, beside others on the same store in turns. `by "
        "hand` is what one would write without any of us: an insert that does nothing where the key is, and an update. Served "
        "is a peer behind a small HTTP service of its own. Redis is the same server for both; memory outlives nothing.\n"
    )
    yield "| store | what | ours | theirs | whose | ratio | aim | |"
    yield "| --- | --- | ---: | ---: | --- | ---: | ---: | --- |"
    for figure in document["figures"]:
        aim, told = figure["aim"].removeprefix(">= ").removesuffix(" x"), ""
        if aim:
            what = f"inbox / {figure['database']} / {figure['what']} / {figure['whose']}"
            told = "met" if figure["ratio"] >= float(aim) else f"missed: {causes.of(what)}"
        yield (
            f"| {figure['database']} | {figure['what']} | {figure['value']:,.0f} | {figure['theirs']:,.0f} | {figure['whose']} | "
            f"{figure['ratio']:.2f} | {aim} | {told} |"
        )


def overview_section(document: dict[str, Any], causes: Causes) -> Iterator[str]:
    yield "\n## The dashboard with a long history\n"
    yield circumstances(document) + "\n"
    aims = [look for look in document["looks"] if look["page"] == "overview" and look["messages"] >= MANY]
    verdicts = [f"{_verdict(look, causes)} on {look['store']}" for look in aims] or ["not measured"]
    yield (
        "How long a page takes to answer, in milliseconds: at the first look of a process, in the middle, and at worst of many "
        f"looks. The aim for the overview is less than {OVERVIEW_MS} at every look with a million messages: "
        f"{', '.join(verdicts)}. The other pages have no aim.\n"
    )
    yield "| page | database | messages | first | median | worst |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for look in document["looks"]:
        page = CALLED_BEFORE.get(look["page"], look["page"])
        times = " | ".join(f"{look[name]:.1f}" for name in ("first_ms", "median_ms", "worst_ms"))
        yield f"| {page} | {look['store']} | {look['messages']:,} | {times} |"


def _verdict(look: dict[str, Any], causes: Causes) -> str:
    if max(look["first_ms"], look["worst_ms"]) < OVERVIEW_MS:
        return "met"
    return f"missed ({causes.of('overview / ' + look['store'])})"


def incident_section(document: dict[str, Any]) -> Iterator[str]:
    times, attempts = document["receipt_ms"], document.get("attempts_of_the_voice_message")
    yield "\n## Receipts while everything else hangs\n"
    yield circumstances(document) + "\n"
    yield (
        f"A chat platform whose every answer takes {document['call_seconds']:g} seconds, a voice message whose delivery hangs "
        f"until it is given up after five seconds, and {document['receipts']:,} further messages meanwhile, against a real "
        f"daemon on SQLite. Receipts took {times['p50']:.1f} ms in the middle, {times['p90']:.1f} ms at the 90th percentile, "
        f"{times['p99']:.1f} ms at the 99th, and {times['max']:.1f} ms at worst. The voice message was delivered once"
        f"{f', by the last of {attempts} attempts' if attempts else ''}."
    )


def pictures(growth: list[dict[str, Any]], soak: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    for axis, name in AXES.items():
        series = {
            f"{curve['pipe']}, {curve['store']}{_to_what(curve)}": list(
                zip(curve["sizes"], curve["microseconds"], strict=True)
            )
            for pipe in ("inbound", "hooks", "outbound", "inbox")
            for document in growth
            for curve in document["curves"]
            if curve["axis"] == axis and curve["pipe"] == pipe
        }
        if series:
            done = "begin and mark a key" if axis == REMEMBERED else "claim and settle a row"
            title = f"Processor time to {done}, by {name}"
            yield PICTURES / f"growth-{axis}.svg", chart(title, series, across=name, up="µs", logarithmic=True)
    minutes = {"pillarbox serve": [(at / 60, memory) for at, memory in soak["samples"]]}
    drawn = chart("Memory under steady load", minutes, across="minutes", up="MiB", logarithmic=False)
    yield PICTURES / "soak.svg", drawn


def _to_what(curve: dict[str, Any]) -> str:
    """Apart where two runs have the same curve: the longer one by how far it goes."""
    return ", to ten million" if curve["sizes"][-1] == 10_000_000 else ""


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
        idle_section(read("idle")),
        growth_section(growth, causes),
        inbox_section(read("inbox"), causes),
        soak_section(soak, causes),
        overview_section(read("overview"), causes),
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
