"""Many seeds from the command line: `python -m tests.simulation --seeds 20000 --lane hooks`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from mutants.stopping import as_forked, forking, run
from mutants.tree import is_changed
from tests.simulation.lanes import LANES, complaint, play_seed
from tests.simulation.progress import Progress
from torture.result import commit, machine, write

_SHARE = 25


@dataclass
class Played:
    """What became of seeds of one lane: the failing ones with their stories, and what happened in all, counted."""

    failing: list[tuple[int, str]] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    seeds: int = 0
    seconds: float = 0.0


def play_share(lane: str, first: int, last: int) -> Played:
    """Some seeds; one that cannot even be told has failed too."""
    played = Played(seeds=last - first)
    for seed in range(first, last):
        try:
            plan, ending = play_seed(lane, seed)
        except Exception as error:
            played.failing.append((seed, f"{lane} seed {seed}: {error!r}"))
            continue
        played.figures.update(ending.figures)
        if said := complaint(lane, seed, plan, ending):
            played.failing.append((seed, said))
    return played


def shares(first: int, seeds: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + seeds, _SHARE):
        yield start, min(start + _SHARE, first + seeds)


def run_lane(lane: str, options: argparse.Namespace) -> Played:
    """Play seeds until all are played or the time is over."""
    began, played = time.monotonic(), Played()
    left, progress = shares(options.first, options.seeds), Progress(lane, options.seeds)
    progress.show(0, 0)
    pool = ProcessPoolExecutor(options.jobs, initializer=as_forked)
    try:
        while taken := list(islice(left, 4 * options.jobs)):
            with forking():
                results = [pool.submit(play_share, lane, first, last) for first, last in taken]
            for result in results:
                _add(played, result.result(), progress)
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                break
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown()
        progress.clear()
    played.seconds = time.monotonic() - began
    pace, failing = 60 * played.seeds / played.seconds, [seed for seed, _ in played.failing]
    print(
        f"{lane}: {played.seeds} seeds from {options.first} in {played.seconds:.0f} s ({pace:.0f} a minute), "
        f"{len(failing)} failed",
        flush=True,
    )
    if failing:
        print(f"{lane}: failing seeds: {' '.join(map(str, failing))}", flush=True)
    return played


def _add(played: Played, share: Played, progress: Progress) -> None:
    played.seeds += share.seeds
    played.figures.update(share.figures)
    played.failing += share.failing
    for _, said in share.failing:
        progress.clear()
        print(said, end="\n\n", flush=True)
    progress.show(played.seeds, len(played.failing))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--lane", choices=LANES, action="append", help="which lane; all unless given")
    parser.add_argument("--seeds", type=int, default=1000, help="how many of each lane")
    parser.add_argument("--first", type=int, default=0, help="from which seed on")
    parser.add_argument("--minutes", type=float, default=0, help="stop a lane after so long, even if seeds are left")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes; one for each core")
    parser.add_argument("--result", type=Path, help="where to write the figures; only where the tree is its commit")
    options = parser.parse_args(arguments)
    if min(options.seeds, options.jobs) < 1 or min(options.first, options.minutes) < 0:
        parser.error("--seeds and --jobs are at least 1, --first and --minutes at least 0")
    if options.result is not None and options.minutes:
        parser.error("--minutes may end a lane before its last seed, and a result is of all of them: leave one out")
    if options.result is not None and is_changed():
        parser.error(f"{options.result} is left as it was: what would be tried is not what is committed")
    lanes = {lane: run_lane(lane, options) for lane in options.lane or LANES}
    if options.result is not None:
        write(summary(lanes, options), options.result)
    return 1 if any(played.failing for played in lanes.values()) else 0


def summary(lanes: dict[str, Played], options: argparse.Namespace) -> dict[str, Any]:
    """What was played and what happened in it, with what it takes to do it again."""
    named = "".join(f" --lane {lane}" for lane in options.lane or ())
    return {
        "command": f"python -m tests.simulation{named} --first {options.first} --seeds {options.seeds}",
        "seed": options.first,
        "commit": commit(),
        "machine": machine(),
        "lanes": {
            lane: {
                "first seed": options.first,
                "last seed": options.first + played.seeds - 1,
                "seeds": played.seeds,
                "failed": [seed for seed, _ in played.failing],
                "seconds": round(played.seconds, 1),
                "figures": dict(sorted(played.figures.items())),
            }
            for lane, played in lanes.items()
        },
    }


if __name__ == "__main__":
    sys.exit(run(main))
