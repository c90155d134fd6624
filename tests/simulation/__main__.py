"""Many seeds from the command line: `python -m tests.simulation --seeds 20000 --lane hooks`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.simulation.lanes import LANES, complaint

_SHARE = 25


def play_share(lane: str, first: int, last: int) -> list[tuple[int, str]]:
    """The failing seeds of a share, each with its story; one that cannot even be told has failed too."""
    failing = []
    for seed in range(first, last):
        try:
            said = complaint(lane, seed)
        except Exception as error:
            said = f"{lane} seed {seed}: {error!r}"
        if said is not None:
            failing.append((seed, said))
    return failing


def shares(first: int, seeds: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + seeds, _SHARE):
        yield start, min(start + _SHARE, first + seeds)


def run_lane(lane: str, options: argparse.Namespace) -> list[int]:
    """Play seeds until all are played or the time is over; answers those that failed."""
    began, played, failing = time.monotonic(), 0, list[int]()
    left = shares(options.first, options.seeds)
    with ProcessPoolExecutor(options.jobs) as pool:
        while taken := list(islice(left, 4 * options.jobs)):
            results = [pool.submit(play_share, lane, first, last) for first, last in taken]
            for result, (first, last) in zip(results, taken, strict=True):
                played += last - first
                for seed, said in result.result():
                    failing.append(seed)
                    print(said, end="\n\n", flush=True)
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                break
    seconds = time.monotonic() - began
    pace = 60 * played / seconds
    print(
        f"{lane}: {played} seeds from {options.first} in {seconds:.0f} s ({pace:.0f} a minute), {len(failing)} failed"
    )
    if failing:
        print(f"{lane}: failing seeds: {' '.join(map(str, failing))}")
    return failing


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--lane", choices=LANES, action="append", help="which lane; all unless given")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="from which seed on")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so long, even if seeds are left")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    options = parser.parse_args(arguments)
    failing = [run_lane(lane, options) for lane in options.lane or LANES]
    return 1 if any(failing) else 0


if __name__ == "__main__":
    sys.exit(main())
