"""A checker that finds nothing proves nothing: each of these hook lanes has one bug, which must be reported."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from msgspec import structs

from pillarbox.engine import Delivered, Outcome, Settlement
from pillarbox.hooks import strands
from pillarbox.hooks.coalesce import CRITICAL, Run
from pillarbox.hooks.lane import HookLane
from pillarbox.hooks.model import HookRow
from pillarbox.hooks.pipe import Hooks
from pillarbox.storage import Row, Step
from tests.simulation.hooks_story import HooksPlan, Tamper, play_hooks
from tests.simulation.process import Rates
from tests.simulation.weather import Weather

Held = Settlement[HookRow]


class DropsCriticalEvents(HookLane):
    def _runs(self, chosen: Sequence[Any]) -> Step[dict[str, Run]]:
        runs = yield from super()._runs(chosen)
        return {key: _without_a_critical_one(run) for key, run in runs.items()}


def _without_a_critical_one(run: Run) -> Run:
    *early, last = run.kept
    critical = next((mark for mark in early if mark.event_type in CRITICAL), None)
    if critical is None:
        return run
    kept = tuple(mark for mark in run.kept if mark is not critical)
    return replace(run, kept=kept, superseded=(*run.superseded, (critical, last)))


class PassesTheFirst(HookLane):
    def _runs(self, chosen: Sequence[Any]) -> Step[dict[str, Run]]:
        runs = yield from super()._runs(chosen)
        return {key: replace(run, kept=run.kept[1:] or run.kept) for key, run in runs.items()}


class SettlesUnfenced(HookLane):
    def _settle(self, settlements: Sequence[Held], now: datetime) -> Step[list[Held]]:
        locked = yield from strands.lock(settlement.strand.key for settlement in settlements)
        return (yield from super()._settle([_as_held_now(each, locked) for each in settlements], now))


def _as_held_now(settlement: Held, locked: dict[str, strands.Locked]) -> Held:
    strand = settlement.strand
    return structs.replace(settlement, strand=replace(strand, token=locked[strand.key].token))


class ForgetsTheRowsBehind(HookLane):
    def _settle_strands(
        self, by_key: dict[str, list[Held]], locked: dict[str, strands.Locked], now: datetime
    ) -> Step[None]:
        forgetful = {
            key: [structs.replace(each, row=each.strand.rows[-1]) for each in told] for key, told in by_key.items()
        }
        yield from super()._settle_strands(forgetful, locked, now)


class RescuesNobody(HookLane):
    def _rescue_strands(self, overdue: list[Row], now: datetime) -> Step[None]:
        yield from ()


class NeverDueAgain(HookLane):
    async def next_due(self, *, now: datetime) -> datetime | None:
        return None


def with_lane(lane: type[HookLane]) -> Tamper:
    def tamper(hooks: Hooks) -> None:
        hooks.lane.__class__ = lane

    return tamper


def marks_before_it_delivers(hooks: Hooks) -> None:
    deliver: Callable[[HookRow], Any] = hooks.drain._attempt._deliver

    async def hurry(row: HookRow) -> Outcome:
        return Delivered() if row.attempt_count == 1 else await deliver(row)

    hooks.drain._attempt._deliver = hurry


def problems(plans: list[HooksPlan], tamper: Tamper) -> Iterator[str]:
    return (problem for plan in plans for problem in play_hooks(plan, tamper=tamper).problems)


SEEDS = range(12)
FEW = 4
BUSY = [HooksPlan(seed, Weather(latency=0.05, longest_delivery=3), sessions=2, bursts=14) for seed in SEEDS]
FAILING = [HooksPlan(seed, Weather(rates=Rates(target=0.5)), sessions=2, bursts=14) for seed in SEEDS]
WEDGED = [HooksPlan(seed, Weather(nodes=3, rates=Rates(wedge=0.3)), bursts=14) for seed in SEEDS]
STRUCK = [HooksPlan(seed, Weather(nodes=2, blows=4, longest_delivery=4.0), bursts=14) for seed in SEEDS]


@pytest.mark.parametrize("plans", [BUSY, FAILING, WEDGED, STRUCK])
def test_nothing_is_reported_of_the_real_hook_lane(plans: list[HooksPlan]) -> None:
    assert list(problems(plans[:FEW], lambda hooks: None)) == []


@pytest.mark.parametrize(
    ("tamper", "plans", "report"),
    [
        (with_lane(DropsCriticalEvents), BUSY, "is critical and was dropped"),
        (with_lane(PassesTheFirst), BUSY, "was claimed before"),
        (with_lane(SettlesUnfenced), WEDGED, "which n"),
        (with_lane(ForgetsTheRowsBehind), FAILING, "was claimed before"),
        (with_lane(RescuesNobody), STRUCK, "was not delivered"),
        (with_lane(NeverDueAgain), FAILING, "was not delivered"),
        (marks_before_it_delivers, BUSY, "counts as delivered by attempt 1 and was not"),
    ],
    ids=[
        "drops critical events",
        "passes the first",
        "settles unfenced",
        "forgets the rows behind",
        "rescues nobody",
        "never due again",
        "marks before it delivers",
    ],
)
def test_a_bug_in_the_hook_lane_is_reported(tamper: Tamper, plans: list[HooksPlan], report: str) -> None:
    assert any(report in problem for problem in problems(plans, tamper))
