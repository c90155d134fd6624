"""`make bench`: one table of us and the others; or `python -m bench growth`, `soak`, `incident`, `overview`, or one pipe."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import uvloop

    from bench import growth, hooks, inbound, inbox, incident, outbound, overview, show, soak, table
    from bench.disk import IN_MEMORY, file_system_of
    from bench.environment import circumstances
    from bench.report import Report
    from bench.servers import STORES, databases
except ModuleNotFoundError as missing:
    sys.exit(
        f"{missing.name} is not installed here: run `make bench` (QUICK=1 for less), which installs what it needs."
    )

SEED = 20261115


@dataclass(frozen=True, slots=True)
class Suite:
    """What measures one pipe, and on which stores."""

    run: Callable[..., Coroutine[None, None, None]]
    stores: tuple[str, ...]


SUITES = {
    "hooks": Suite(hooks.run, ("sqlite", "postgres")),
    "inbound": Suite(inbound.run, ("sqlite", "postgres")),
    "inbox": Suite(inbox.run, STORES),
    "outbound": Suite(outbound.run, ("sqlite", "postgres")),
}
WHOLE = ("table", "growth", "soak", "incident", "overview")


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"{', '.join(WHOLE)}, or {', '.join(SUITES)}; the table when left out")
    parser.add_argument("--quick", action="store_true", help="a first impression in a fraction of the time")
    parser.add_argument("--only", help="one database alone; of the table, the rows whose name has this in it")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long a soak goes on")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--folder", type=Path, help="where to work; must be on a disk")
    options = parser.parse_args()
    work = options.folder or Path(tempfile.gettempdir())
    if (kind := file_system_of(work)) in IN_MEMORY:
        parser.error(f"{work} is a {kind}, in memory, where fsync costs nothing; give a --folder on a disk")
    what = options.what or ["table"]
    if unknown := set(what) - {*SUITES, *WHOLE}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="pillarbox-bench-", dir=work) as folder:
        for name in what:
            if name in WHOLE:
                save(whole(name, options, Path(folder)), options.out)
        if suites := {name: SUITES[name] for name in what if name in SUITES}:
            report = pipes(suites, options, Path(folder))
            if options.out:
                report.write(options.out)


def whole(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure, show, and answer what a result file holds."""
    document = circumstances(SEED, folder) | {"command": f"python -m bench {name}{' --quick' * options.quick}"}
    if options.only:
        document["command"] += f" --only {options.only}"
    match name:
        case "table":
            size = table.QUICK if options.quick else table.FULL
            document["rows"] = []
            for row in table.measure_all(folder, size, only=options.only):
                document["rows"].append(row)
                save(document, options.out)
            show.show(document)
        case "growth":
            document["curves"] = []
            for curve in growth.measure_all(folder, quick=options.quick, only=options.only):
                document["curves"].append(curve)
                save(document, options.out)
            show.show_growth(document)
        case "soak":
            document["command"] += f" --minutes {options.minutes:g}"
            document |= soak.measure(folder, minutes=options.minutes)
            show.show_soak(document)
        case "overview":
            document["looks"] = []
            for look in overview.measure_all(folder, quick=options.quick, only=options.only):
                document["looks"].append(look)
                save(document, options.out)
            show.show_overview(document)
        case "incident":
            document |= incident.measure(folder)
            print(json.dumps(document["receipt_ms"]))
    return document


def save(document: dict[str, Any], out: Path | None) -> None:
    """Write a result file; of a long run as far as it has come."""
    if out:
        out.write_text(json.dumps(document, indent=1) + "\n")


def pipes(suites: dict[str, Suite], options: argparse.Namespace, folder: Path) -> Report:
    """One pipe or several in more detail, each beside its own peers."""
    wanted = {store for suite in suites.values() for store in suite.stores if options.only in (None, store)}
    report = Report()
    for database in databases(folder, wanted):
        for name, suite in suites.items():
            if database.name in suite.stores:
                print(f"{name} on {database.name} ...", file=sys.stderr, flush=True)
                # The loop that our own processes run on.
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(suite.run(database, report, scale=0.1 if options.quick else 1.0))
    report.show()
    return report


if __name__ == "__main__":
    main()
