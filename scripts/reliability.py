"""Rewrites the generated blocks of docs/reliability.md from the result files; with --check it only says whether it differs.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`, and NAME is one of the writers below.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "docs" / "results"

_MILLION = "million/torture-*.json"
_BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DATABASES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_FAULTS = {
    "killed": "processes killed with SIGKILL",
    "paused": "processes stopped for longer than their lease",
    "sigterm": "processes told to stop under load",
    "caller killed": "programs that send within their own transactions, killed at any moment",
    "receiver killed": "agents' receivers killed at any moment of their short lives",
    "postgres restarted": "PostgreSQL restarted, every second time without flushing",
    "postgres away": "PostgreSQL stopped for up to ten seconds",
    "cut": "all of a process's connections cut",
    "black hole": "a process's connections left open and silent",
    "commit cut": "connections cut, or silenced, exactly at COMMIT",
    "full disk": "the disk filled to the last byte, and emptied again",
    "fsync error": "fsync answered EIO",
    "clock": "the wall clock stepped, by a second to 40 days, both ways",
    "starved": "the machine itself standing still for a quarter of a lease",
    "target": "the target dropping answers, refusing, or slow",
}

_REPEATED = {
    "killed": "a kill",
    "paused": "a process had stood still",
    "postgres restarted": "a restart of PostgreSQL",
    "postgres away": "PostgreSQL was away",
    "cut": "connections were cut",
    "black hole": "connections were silent",
    "commit cut": "a commit was cut",
    "full disk": "the disk was full",
    "fsync error": "a failed fsync",
    "sigterm": "a stop while the database was away",
    "starved": "the machine had stood still",
}


def main(arguments: Sequence[str]) -> int:
    text = PAGE.read_text()
    changed = rewritten(text)
    if "--check" in arguments:
        return int(text != changed)
    PAGE.write_text(changed)
    return 0


def rewritten(text: str) -> str:
    """The page with every block as the result files give it."""
    return _BLOCK.sub(lambda found: f"{found[1]}{WRITERS[found['name']]()}{found[3]}", text)


def results(pattern: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(pattern))]


def write_torture(pattern: str = "torture-*.json") -> str:
    """What was acknowledged, which faults there were, and what was against a promise, by database and in all."""
    runs = results(pattern)
    kinds = [kind for kind in _DATABASES if any(run["database"] == kind for run in runs)]
    columns = ["", *(_DATABASES[kind] for kind in kinds), "in all"]

    def line(name: str, count: Callable[[dict[str, Any]], int]) -> list[str]:
        counts = [sum(count(run) for run in runs if run["database"] == kind) for kind in kinds]
        return [name, *(f"{number:,}" for number in counts), f"{sum(counts):,}"]

    pipes = sorted({name for run in runs for name in run["acknowledged"]})
    rows = [line(f"acknowledged: {name}", partial(_count, "acknowledged", name)) for name in pipes]
    rows.append(line("**acknowledged in all**", lambda run: sum(run["acknowledged"].values())))
    rows.append(line("arrivals at the target", lambda run: sum(run["arrivals"].values())))
    rows.append(
        line(
            "of them repetitions: after a refusal, a dropped answer or a fault",
            lambda run: sum(run["repetitions"].values()),
        )
    )
    for name, said in _FAULTS.items():
        rows.append(line(said, partial(_count, "faults", name)))
    for name, said in _REPEATED.items():
        if any(name in run.get("repeated by", {}) for run in runs):
            rows.append(line(f"accepted, and delivered again after {said}", partial(_count, "repeated by", name)))
    for name in sorted({name for run in runs for name in run.get("looks", {})}):
        rows.append(line(f"looks {name}", partial(_count, "looks", name)))
    rows.append(line("**violations**", lambda run: sum(run["violations"].values())))
    rows.append(line("rounds, each on a new database", lambda run: run["rounds"]))
    rows.append(line("minutes", lambda run: round(run["seconds"] / 60)))
    return _table(columns, rows) + "\n" + _each(runs)


def _each(runs: Sequence[dict[str, Any]]) -> str:
    """Every run with how to make it again; the machine once, where it was the same."""
    rows = [
        [
            f"`{run['command']}`",
            _commit(run),
            f"{sum(run['acknowledged'].values()):,}",
            f"{sum(run['faults'].values()):,}",
            f"{sum(run['violations'].values()):,}",
            f"{run['seconds'] / 60:.0f}",
        ]
        for run in runs
    ]
    machines = dict.fromkeys(_machine(run) for run in runs)
    table = _table(["each run", "commit", "acknowledged", "faults", "violations", "minutes"], rows)
    return table + "\n" + "".join(f"- {machine}\n" for machine in machines)


def _count(kind: str, name: str, run: dict[str, Any]) -> int:
    # What was not counted yet when a run was made is nothing.
    counted: int = run.get(kind, {}).get(name, 0)
    return counted


def write_broken() -> str:
    """The rules that were broken, if any were."""
    broken: Counter[str] = Counter()
    for run in (*results("torture-*.json"), *results(_MILLION)):
        broken.update(run["violations"])
    if not broken:
        return "No rule was broken.\n"
    return _table(["rule", "times"], [[name, f"{count:,}"] for name, count in sorted(broken.items())])


def write_mutants() -> str:
    """Each planted bug and the first test that found it."""
    rows = []
    for result in results("mutants.json"):
        for bug in result["bugs"]:
            by = f"`{bug['found by'][0].partition('[')[0]}`" if bug["found by"] else "**nobody**"
            rows.append([bug["bug"], f"`{bug['file'].removeprefix('src/pillarbox/')}`", by])
    found = sum(row[2] != "**nobody**" for row in rows)
    said = f"{found} of {len(rows)} were found.\n\n"
    for result in results("mutants.json"):
        if sound := result.get("tests that pass without any bug"):
            said = f"{found} of {len(rows)} were found. Without any bug all {sound} tests pass.\n\n"
    return (
        said + _table(["bug", "planted in", "found by"], rows) + "\n" + "".join(map(_origin, results("mutants.json")))
    )


def write_mutmut() -> str:
    """How many machine-made changes the tests noticed, by file and in all; what no test reaches, or ends, was not noticed."""
    ends = ("killed", "timed out", "survived", "untested")
    rows, total = [], Counter[str]()
    for result in results("mutmut.json"):
        for file in result["files"]:
            # An earlier result does not tell those that ran out of time from those that were noticed.
            counts = {end: file[end] for end in ends if end in file}
            if tried := sum(counts.values()):
                cells = [f"{counts[end]:,}" if end in counts else "not told apart" for end in ends]
                rows.append([f"`{file['file']}`", *cells, _percent(file["killed"], tried)])
            total.update(counts)
    if not rows:
        return "Not measured yet.\n"
    cells = [f"{total[end]:,}" if end in total else "" for end in ends]
    rows.append(["**in all**", *cells, f"**{_percent(total['killed'], total.total())}**"])
    columns = ["file", "noticed", "ran out of time", "not noticed", "not even reached", "score"]
    return _table(columns, rows) + "\n" + "".join(map(_origin, results("mutmut.json")))


def write_hostile() -> str:
    """How many distinct requests were sent, by room, and how they were answered."""
    rows, runs = [], results("hostile.json")
    for run in runs:
        rows += [[name, f"{count:,}"] for name, count in sorted(run["rooms"].items())]
        rows.append(["**distinct requests in all**", f"{run['inputs']:,}"])
        rows.append(["of them to pages, with an operator's login", f"{run['signed in']:,}"])
        rows += [[f"answered with {kind}", f"{count:,}"] for kind, count in sorted(run["answers"].items())]
        rows.append(["parts where an answer was not as it has to be", f"{len(run['failed']):,}"])
    if not rows:
        return "Not measured yet.\n"
    return _table(["", "each sent to SQLite and to PostgreSQL"], rows) + "\n" + "".join(map(_origin, runs))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _origin(run: dict[str, Any]) -> str:
    """Where figures come from: the command, the seed, the commit and the machine."""
    seed = f", seed {run['seed']}" if "seed" in run else ""
    return f"- `{run['command']}`{seed}, commit {_commit(run)}, {_machine(run)}\n"


def _commit(run: dict[str, Any]) -> str:
    head, _, changes = run["commit"].partition(" ")
    return f"`{head[:12]}`{changes and f' {changes}'}"


def _machine(run: dict[str, Any]) -> str:
    machine = run["machine"]
    return (
        f"Python {machine['python']}, SQLite {machine['sqlite']}, {machine['postgres']}, {machine['cores']} cores of "
        f"{machine['cpu']}"
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *["---:" for _ in columns[1:]]], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


WRITERS: dict[str, Callable[[], str]] = {
    "torture": write_torture,
    "million": lambda: write_torture(_MILLION),
    "broken": write_broken,
    "mutants": write_mutants,
    "mutmut": write_mutmut,
    "hostile": write_hostile,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
