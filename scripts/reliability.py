"""Rewrites the generated blocks of docs/reliability.md from the result files; with --check it only says whether it differs.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`, and NAME is one of the writers below. Run it as
`python -m scripts.reliability`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mutants.machine_made import FILES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "docs" / "results"

_BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_DATABASES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_FAULTS = {
    "killed": "processes killed with SIGKILL",
    "paused": "processes stopped for longer than their lease",
    "sigterm": "processes told to stop under load",
    "caller killed": "programs that send within their own transactions, killed at any moment",
    "receiver killed": "agents' receivers killed at any moment of their short lives",
    "postgres restarted": "PostgreSQL restarted, about every second time without flushing",
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

_ONLY_ON = {
    "sqlite": ("full disk", "fsync error"),
    "postgres": ("postgres restarted", "postgres away", "cut", "black hole", "commit cut"),
}
"""Faults that are made on one database and not on the other."""

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

BROKEN = {
    "acknowledged and lost": (
        "inbound: nothing lost",
        "hooks: nothing lost",
        "hooks: receivers",
        "hooks: bursts",
        "outbound: nothing lost",
        "outbound: own transactions",
        "inbox: processed once",
    ),
    "inversions: delivered or accepted out of order": ("inbound: order", "hooks: order"),
    "stale effects: after a close, a cancel or an opt-out, under an old token, or on a key that is processed or held": (
        "inbound: close",
        "inbound: fences",
        "outbound: cancel and opt-out",
        "inbox: memory",
        "inbox: leases",
        "inbox: blocks",
    ),
}
"""What people ask first, and the rules of the checker that would say so."""

_STORIES = {
    "messages": "messages, events or keys",
    "deliveries begun": "deliveries begun",
    "deliveries done": "of them done by the target",
    "done by the target and not said": "of these, nobody heard that they were done",
    "killed": "nodes killed",
    "suspended": "nodes suspended",
    "blocked": "nodes whose loop was blocked",
    "told to stop or cancelled": "nodes told to stop, or cancelled",
    "calls to the store cut or failed": "calls to the store cut or failed",
    "clocks off or ahead": "clocks of nodes off, or set ahead",
}
"""What the simulation counts, in words."""


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


def write_torture() -> str:
    """What was acknowledged, which faults there were, and what was against a promise, by database and in all."""
    runs = results("torture-*.json")
    if not runs:
        return "Not measured yet.\n"
    kinds = [kind for kind in _DATABASES if any(run["database"] == kind for run in runs)]

    def line(name: str, count: Callable[[dict[str, Any]], int], only_on: Collection[str] = _DATABASES) -> list[str]:
        counts = {kind: sum(count(run) for run in runs if run["database"] == kind) for kind in kinds}
        cells = (f"{number:,}" if kind in only_on else "" for kind, number in counts.items())
        return [name, *cells, f"{sum(counts.values()):,}"]

    rows = [*_flow(runs, line), *_trouble(runs, line), *_verdict(runs, line)]
    rows.append(line("rounds, each on a new database", lambda run: run["rounds"]))
    rows.append(line("minutes", lambda run: round(run["seconds"] / 60)))
    table = _table(["", *(_DATABASES[kind] for kind in kinds), "in all"], rows)
    return table + "\n" + _each(runs)


def _flow(runs: Sequence[dict[str, Any]], line: Callable[..., list[str]]) -> list[list[str]]:
    """What went in, how it ended where every run says so, and what came out."""
    rows = [
        line(f"acknowledged: {name}", partial(_count, "acknowledged", name)) for name in _names(runs, "acknowledged")
    ]
    rows.append(line("**acknowledged in all**", partial(_sum, "acknowledged")))
    if all("ended" in run for run in runs):
        for name in _names(runs, "ended"):
            rows.append(line(f"ended: {name.replace(': ', ', ')}", partial(_count, "ended", name)))
    rows.append(line("arrivals at the target", partial(_sum, "arrivals")))
    said = "of them repetitions: after a refusal, a dropped answer or a fault"
    return [*rows, line(said, partial(_sum, "repetitions"))]


def _trouble(runs: Sequence[dict[str, Any]], line: Callable[..., list[str]]) -> list[list[str]]:
    """The faults, and what was delivered again because of each."""

    def where(fault: str) -> list[str]:
        return [kind for kind, faults in _ONLY_ON.items() if fault in faults] or list(_DATABASES)

    rows = [line(said, partial(_count, "faults", name), where(name)) for name, said in _FAULTS.items()]
    explaining = _names(runs, "repeated by")
    for name in (name for name in _REPEATED if name in explaining):
        said = f"accepted, and delivered again after {_REPEATED[name]}"
        rows.append(line(said, partial(_count, "repeated by", name), where(name)))
    for name in _names(runs, "under an old token"):
        rows.append(line(f"calls under an old token: {name}", partial(_count, "under an old token", name)))
    return rows


def _verdict(runs: Sequence[dict[str, Any]], line: Callable[..., list[str]]) -> list[list[str]]:
    """How often was looked, and what was found to be against a promise, by name if anything was."""
    rows = [line(f"looks {name}", partial(_count, "looks", name)) for name in _names(runs, "looks")]
    for said, rules in BROKEN.items():
        rows.append(
            line(f"**{said}**", lambda run, rules=rules: sum(_count("violations", rule, run) for rule in rules))
        )
    rows.append(line("**violations of all rules**", partial(_sum, "violations")))
    for name in _names(runs, "violations"):
        rows.append(line(f"of the rule {name.replace(': ', ', ')}", partial(_count, "violations", name)))
    return rows


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
    left_out = Counter(sentence for run in runs for sentence in run["left out"])
    said = [*machines, *(f"left out in {times} of these runs: {sentence}" for sentence, times in left_out.items())]
    return table + "\n" + "".join(f"- {each}\n" for each in said)


def _count(kind: str, name: str, run: dict[str, Any]) -> int:
    counted: int = run.get(kind, {}).get(name, 0)
    return counted


def _sum(kind: str, run: dict[str, Any]) -> int:
    return sum(run[kind].values())


def _names(runs: Sequence[dict[str, Any]], kind: str) -> list[str]:
    return sorted({name for run in runs for name in run.get(kind, ())})


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
    said = "".join(_origin(result) + _not_tried(result) for result in results("mutmut.json"))
    return _table(columns, rows) + "\n" + said


def _not_tried(result: dict[str, Any]) -> str:
    """The files of today's list that a result knows nothing of."""
    known = {file["file"] for file in result["files"]}
    missing = ", ".join(f"`{file}`" for file in FILES if file not in known)
    return f"- on the list of `make mutmut` today, and not yet on that of this run: {missing}\n" if missing else ""


def write_hostile() -> str:
    """How many distinct requests were sent, by room, and how they were answered."""
    rows, runs = [], results("hostile.json")
    for run in runs:
        rows += [[name, f"{count:,}"] for name, count in sorted(run["rooms"].items())]
        rows.append(["**distinct requests in all**", f"{run['inputs']:,}"])
        rows.append(["of them to pages, with an operator's login", f"{run['signed in']:,}"])
        rows += [[f"answered with {kind}", f"{count:,}"] for kind, count in sorted(run["answers"].items())]
        if again := sum(run["answers"].values()) - run["inputs"]:
            rows.append(["requests that two endpoints have in common, sent and answered twice", f"{again:,}"])
        rows.append(["parts where an answer was not as it has to be", f"{len(run['failed']):,}"])
    if not rows:
        return "Not measured yet.\n"
    return _table(["", "each sent to SQLite and to PostgreSQL"], rows) + "\n" + "".join(map(_origin, runs))


def write_simulation() -> str:
    """What happened in the stories of each lane, and how many of them failed."""
    runs = results("simulation.json")
    if not runs:
        return "Not measured yet.\n"

    def line(name: str, counts: Sequence[int]) -> list[str]:
        return [name, *(f"{count:,}" for count in counts), f"{sum(counts):,}"]

    said = ""
    for run in runs:
        lanes = run["lanes"].values()
        rows = [line("stories, each from a seed of its own", [lane["seeds"] for lane in lanes])]
        for figure, words in _STORIES.items():
            rows.append(line(words, [lane["figures"].get(figure, 0) for lane in lanes]))
        rows.append(line("**stories in which a rule was broken**", [len(lane["failed"]) for lane in lanes]))
        rows.append(line("seconds", [round(lane["seconds"]) for lane in lanes]))
        said += _table(["", *(f"`{name}`" for name in run["lanes"]), "in all"], rows) + "\n" + _origin(run)
    return said


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
    "mutants": write_mutants,
    "mutmut": write_mutmut,
    "hostile": write_hostile,
    "simulation": write_simulation,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
