"""`make bench`: one table of us and others; or `python -m bench growth`, `idle`, `soak`, `incident`, `overview`, or one pipe."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import uvloop

    from bench import growth, hooks, idle, inbound, inbox, incident, outbound, overview, show, soak, table
    from bench.disk import IN_MEMORY, file_system_of
    from bench.environment import circumstances, python_for, versions_of
    from bench.report import Report
    from bench.servers import STORES, databases
    from bench.stores import server_versions
except ModuleNotFoundError as missing:
    sys.exit(
        f"{missing.name} is not installed here: run `make bench` (QUICK=1 for less), which installs what it needs."
    )
except KeyboardInterrupt:
    print("interrupted before anything began", file=sys.stderr)
    sys.exit(128 + signal.SIGINT)

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
WHOLE = {
    "table": ("postgres", "redis", "nats"),
    "growth": ("postgres",),
    "idle": ("postgres", "redis", "nats"),
    "soak": (),
    "incident": (),
    "overview": ("postgres",),
}
"""What is measured as a whole, and the servers that it needs."""
ONLY = (
    "less of it. Table: rows whose name has this in it, such as PgQueuer or 'on redis'. Growth: a database, a pipe, or what "
    f"grows ({', '.join(axis.name for axis in growth.AXES)}); with commas between, the curves to which all of them apply, "
    "such as delivered,sqlite,inbound. Overview and single pipes: a database"
)


def main() -> None:
    """Measure what was asked for; whoever interrupts it finds nothing left behind."""
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        # The same way for both, so that an event loop ends as it does for Ctrl-C.
        came.append(number)
        signal.raise_signal(signal.SIGINT)
        # In a script's background nobody heeds that.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        run()
    except KeyboardInterrupt:
        print("interrupted; nothing is left behind", file=sys.stderr)
        sys.exit(128 + (came or [signal.SIGINT])[0])


def run() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"{', '.join(WHOLE)}, or {', '.join(SUITES)}; the table when left out")
    parser.add_argument("--quick", action="store_true", help="a first impression in a fraction of the time")
    parser.add_argument("--only", help=ONLY)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long a soak goes on")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--folder", type=Path, help="where to work; must be on a disk")
    options = parser.parse_args()
    work = options.folder or Path(tempfile.gettempdir())
    if not work.is_dir():
        parser.error(f"--folder {work}: there is no such folder")
    if (kind := file_system_of(work)) in IN_MEMORY:
        parser.error(f"{work} is a {kind}, in memory, where fsync costs nothing; give a --folder on a disk")
    what = options.what or ["table"]
    if unknown := set(what) - {*SUITES, *WHOLE}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.quick and (whole_alone := {"soak", "incident"} & set(what)):
        parser.error(f"--quick: {' and '.join(sorted(whole_alone))} cannot be had for less; a soak takes --minutes")
    if options.out and len(what) > 1 and {*what} & {*WHOLE}:
        parser.error(f"--out {options.out}: one file holds one of {', '.join(what)}; measure them one by one")
    if options.only and (wrong := [name for name in what if not known(name, options.only)]):
        parser.error(f"--only {options.only}: nothing of {', '.join(wrong)} is called that")
    with tempfile.TemporaryDirectory(prefix="pillarbox-bench-", dir=work) as folder:
        for name in what:
            if name in WHOLE:
                save(whole(name, options, Path(folder)), options.out)
        if suites := {name: SUITES[name] for name in what if name in SUITES}:
            save(in_detail(suites, options, Path(folder)), options.out)


def known(what: str, only: str) -> bool:
    """Whether anything is left to measure."""
    match what:
        case "table":
            return any(table.named(only))
        case "growth":
            return any(growth.chosen(only))
        case "idle" | "soak" | "incident":
            return False
        case _:
            return only in (SUITES[what].stores if what in SUITES else ("sqlite", "postgres"))


def whole(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure, show, and answer what a result file holds."""
    document = circumstances(SEED, folder) | {"command": f"python -m bench {name}{' --quick' * options.quick}"}
    document["versions"] |= server_versions(WHOLE[name])
    began = time.monotonic()
    if options.only:
        document["command"] += f" --only {shlex.quote(options.only)}"
    match name:
        case "table":
            size = table.QUICK if options.quick else table.FULL
            document["versions"]["python of the peers"] = versions_of(python_for("pgqueuer"))["python"]
            for document["rows"] in table.measure_all(folder, size, only=options.only):
                save(document, options.out)
            show.show(document)
        case "growth":
            document |= {"of_rounds": growth.OF_ROUNDS, "curves": []}
            for curve in growth.measure_all(folder, quick=options.quick, only=options.only):
                document["curves"].append(curve)
                save(document, options.out)
            show.show_growth(document)
        case "idle":
            for document["rows"] in idle.measure_all(folder, quick=options.quick):
                save(document, options.out)
            show.show_idle(document)
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
            show.show_incident(document)
    return document | {"minutes": round((time.monotonic() - began) / 60, 1)}


def save(document: dict[str, Any], out: Path | None) -> None:
    """Write a result file; of a long run as far as it has come."""
    if out:
        out.write_text(json.dumps(document, indent=1) + "\n")


def in_detail(suites: dict[str, Suite], options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure pipes by themselves, show, and answer what a result file holds."""
    document = circumstances(SEED, folder) | {
        "command": f"python -m bench {' '.join(suites)}{' --quick' * options.quick}"
        + (f" --only {shlex.quote(options.only)}" if options.only else "")
    }
    document["versions"] |= server_versions(("postgres", "redis"))
    began = time.monotonic()
    report = pipes(suites, options, folder)
    return document | {"figures": report.document(), "minutes": round((time.monotonic() - began) / 60, 1)}


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
