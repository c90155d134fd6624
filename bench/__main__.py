"""`make bench`: everything, or `python -m bench inbound --quick`."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import hooks, inbound, inbox, outbound
from bench.report import Report
from bench.servers import STORES, databases


@dataclass(frozen=True, slots=True)
class Suite:
    """What measures, and on which stores."""

    run: Callable[..., Coroutine[None, None, None]]
    stores: tuple[str, ...]


SUITES = {
    "hooks": Suite(hooks.run, ("sqlite", "postgres")),
    "inbound": Suite(inbound.run, ("sqlite", "postgres")),
    "inbox": Suite(inbox.run, STORES),
    "outbound": Suite(outbound.run, ("sqlite", "postgres")),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("suite", nargs="*", help=f"one of {', '.join(SUITES)}; all when left out")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a first impression")
    parser.add_argument("--only", choices=STORES, help="one database alone")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    if unknown := set(options.suite) - set(SUITES):
        parser.error(f"unknown suite: {', '.join(sorted(unknown))}")
    suites = {name: SUITES[name] for name in options.suite or SUITES}
    wanted = {store for suite in suites.values() for store in suite.stores if options.only in (None, store)}
    report = Report()
    with tempfile.TemporaryDirectory(prefix="pillarbox-bench-") as folder:
        for database in databases(Path(folder), wanted):
            for name, suite in suites.items():
                if database.name in suite.stores:
                    print(f"{name} on {database.name} ...", file=sys.stderr, flush=True)
                    # The loop that our own processes run on.
                    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                        runner.run(suite.run(database, report, scale=0.1 if options.quick else 1.0))
    report.show()
    if options.out:
        report.write(options.out)


main()
