"""A checker that finds nothing proves nothing: each of these drains and stores has one bug, which must be reported."""

import pytest

from pillarbox.engine import Drain, Settlement, Strand
from tests.simulation.process import Rates
from tests.simulation.table import Parcel, Table
from tests.simulation.world import Plan, play


class ClearsTheBellAfterLooking(Drain[Parcel]):
    async def _take_turn(self) -> bool:
        more = await super()._take_turn()
        self._bell.clear()
        return more


class WaitsOnlyForThePoll(Drain[Parcel]):
    async def _patience(self) -> float:
        return self._pace.poll


class ForgetsToRenew(Drain[Parcel]):
    def _launch(self, strand: Strand[Parcel], *, since: float) -> None:
        super()._launch(strand, since=since)
        self.renewal.remove(self._flights._newest[strand.key])


class ForgetsWhatItCouldNotSettle(Drain[Parcel]):
    async def _recover(self, settlements: list[Settlement[Parcel]], error: Exception) -> None:
        await super()._recover([], error)


class SettlesUnfenced(Table):
    def _holds(self, strand: Strand[Parcel]) -> bool:
        return self.strands[strand.key].lease_until is not None


def problems(plans: list[Plan], *, drain: type[Drain[Parcel]] = Drain, table: type[Table] = Table) -> str:
    return "\n".join(problem for plan in plans for problem in play(plan, drain=drain, table=table).problems)


SEEDS = range(40)
BUSY = [Plan(seed=seed, keys=5, rows=14, latency=0.05, longest_delivery=5) for seed in SEEDS]
FAILING = [Plan(seed=seed, rates=Rates(target=0.5)) for seed in SEEDS]
LONG = [Plan(seed=seed, most=4, rows=14, keys=1, timeout=4, lease=6, longest_delivery=3.6) for seed in SEEDS]
CUT = [Plan(seed=seed, rates=Rates(store=0.3)) for seed in SEEDS]
WEDGED = [Plan(seed=seed, nodes=3, rates=Rates(wedge=0.3)) for seed in SEEDS]


@pytest.mark.parametrize("plans", [BUSY, FAILING, LONG, CUT, WEDGED])
def test_nothing_is_reported_of_the_real_drain(plans: list[Plan]) -> None:
    assert problems(plans) == ""


@pytest.mark.parametrize(
    ("drain", "plans", "report"),
    [
        (ClearsTheBellAfterLooking, BUSY, "to be settled although nothing was in its way"),
        (WaitsOnlyForThePoll, FAILING, "was not delivered"),
        (ForgetsToRenew, LONG, "ran out although"),
        (ForgetsWhatItCouldNotSettle, CUT, "delivered twice, and no fault explains it"),
    ],
)
def test_a_bug_in_the_drain_is_reported(drain: type[Drain[Parcel]], plans: list[Plan], report: str) -> None:
    assert report in problems(plans, drain=drain)


def test_a_store_without_fences_is_reported() -> None:
    assert "the current one is" in problems(WEDGED, table=SettlesUnfenced)
