"""`python -m torture --seed 7 --messages 30000`: rounds of trouble until it was enough; exits with 1 after any violation."""

from __future__ import annotations

import argparse
import random
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import get_args

from torture.again import check_again
from torture.outcome import Outcome
from torture.places import Kind
from torture.plan import LIGHT_NODES, NODES, Plan
from torture.playing import play
from torture.result import summary, table, told, write

_KILLS = ("killed", "fsync error")


class Run:
    """Rounds until it was enough, and the time that trouble was made."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._seconds = 0.0
        self.outcomes: list[Outcome] = []

    def over(self) -> bool:
        """Whether nothing that was asked for is missing."""
        return bool(self.outcomes) and self._reached(0, Counter(), self._seconds)

    def play(self) -> Outcome:
        """One more round, ended when the run has what it was to have, or when the round is large enough."""
        began: list[float] = []

        def enough(messages: int, counts: Counter[str]) -> bool:
            # From the first question on: starting processes is no trouble.
            if not began:
                began.append(time.monotonic())
            seconds = self._seconds + time.monotonic() - began[0]
            return messages >= self._plan.round_messages or self._reached(messages, counts, seconds)

        outcome = play(self._plan, len(self.outcomes), enough)
        self._seconds += time.monotonic() - began[0]
        self.outcomes.append(outcome)
        return outcome

    def _reached(self, messages: int, counts: Counter[str], seconds: float) -> bool:
        """The time, or both of the numbers that were asked for."""
        plan = self._plan
        if plan.seconds and seconds >= plan.seconds:
            return True
        faults = sum((outcome.faults for outcome in self.outcomes), counts)
        messages += sum(sum(outcome.acknowledged.values()) for outcome in self.outcomes)
        kills = sum(faults[name] for name in _KILLS)
        return bool(plan.messages or plan.kills) and messages >= plan.messages and kills >= plan.kills


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    options = _options(given)
    if options.check:
        return _check(Path(options.check))
    plan = _plan(options)
    # The seed first: whatever happens, it can be played again.
    print(f"seed {plan.seed}", flush=True)
    run = Run(plan)
    command = shlex.join(["python", "-m", "torture", *_without_result(given)])
    with _ending_in_order():
        while not run.over():
            outcome = run.play()
            print(f"round {len(run.outcomes) - 1}, {outcome.seconds:.0f} s: {told(outcome)}", flush=True)
            if options.result:
                write(summary(plan, run.outcomes, command), Path(options.result))
    result = summary(plan, run.outcomes, command)
    print(table(result))
    return 1 if result["violations"] else 0


def _check(folder: Path) -> int:
    """Whether what was kept breaks a rule; 2 where there is nothing to check."""
    try:
        outcome = check_again(folder)
    except FileNotFoundError as error:
        print(f"this is no folder that was kept: {error}", file=sys.stderr)
        return 2
    print(f"seed {outcome.seed}: {told(outcome)}")
    return 1 if outcome.violations else 0


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Told to stop, it leaves nothing running; told again meanwhile, it goes on doing so."""

    def end(number: int, _: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _without_result(given: Sequence[str]) -> list[str]:
    """What was asked for, without where it was to be written."""
    return [word for before, word in zip(["", *given], given, strict=False) if "--result" not in (before, word)]


def _plan(options: argparse.Namespace) -> Plan:
    seconds = options.minutes * 60
    if not (seconds or options.messages or options.kills):
        seconds = 60.0
    plan = Plan(
        seed=random.randrange(10**6) if options.seed is None else options.seed,
        database=options.database,
        messages=options.messages,
        kills=options.kills,
        seconds=seconds,
        round_messages=options.round_messages,
        nodes=options.nodes,
        pace=options.pace,
        lease=options.lease,
        calm=options.calm,
        every_kind=options.every_kind,
    )
    return plan.lightened() if options.light else plan


def _options(given: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = parser.parse_args(given)
    if options.nodes < 1:
        parser.error(f"--nodes {options.nodes}: there has to be at least one process that delivers")
    for name in ("minutes", "messages", "kills"):
        if getattr(options, name) < 0:
            parser.error(f"--{name} {getattr(options, name)}: this cannot be less than nothing")
    for name in ("pace", "lease", "round_messages"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name.replace('_', '-')} {getattr(options, name)}: this has to be more than nothing")
    if options.calm and options.kills:
        parser.error("--calm strikes no process, so there will never be any --kills: leave one out")
    if options.light and options.nodes not in (NODES, LIGHT_NODES):
        parser.error(f"--light has {LIGHT_NODES} processes that deliver: leave out --nodes {options.nodes}")
    if options.every_kind and not options.minutes:
        parser.error("--every-kind goes on for up to two and a half times --minutes: say how many")
    if options.every_kind and options.calm:
        parser.error("--calm makes no fault of any kind, and --every-kind wants each: leave one out")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument(
        "--seed", type=int, help="what decides every choice, though not the timing; drawn and printed unless given"
    )
    parser.add_argument("--database", choices=get_args(Kind), default="sqlite")
    parser.add_argument(
        "--minutes", type=float, default=0, help="make trouble for so long; a minute unless told otherwise"
    )
    parser.add_argument("--messages", type=int, default=0, help="go on until so many were acknowledged")
    parser.add_argument("--kills", type=int, default=0, help="and until so many processes were killed")
    parser.add_argument("--round-messages", type=int, default=30_000, help="check, and begin anew, after so many")
    parser.add_argument("--nodes", type=int, default=NODES, help="how many processes deliver")
    parser.add_argument("--pace", type=float, default=0.8, help="seconds between two faults, on average")
    parser.add_argument("--lease", type=float, default=8.0, help="seconds that a claim holds")
    parser.add_argument("--light", action="store_true", help="a few processes and producers only")
    parser.add_argument(
        "--every-kind",
        action="store_true",
        help="go on until each kind of fault happened, up to two and a half times as long",
    )
    parser.add_argument("--calm", action="store_true", help="strike no process, database or clock")
    parser.add_argument("--check", metavar="FOLDER", help="play nothing: check the kept folder of a round again")
    parser.add_argument("--result", help="a file for the figures, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
