"""A checker that finds nothing proves nothing: each of these has one bug in the outbound pipe, which must be reported."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pillarbox.engine import Retry
from pillarbox.outbound import beginning, pipe, settling, taking
from pillarbox.outbound import lane as lane_module
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.candidates import Candidate, Walk
from pillarbox.outbound.lane import OutboundLane
from pillarbox.outbound.sender import Sender
from pillarbox.storage import Row, Step
from pillarbox.storage.queries import parse_queries
from tests.simulation.outbound_story import OutboundPlan, play_outbound
from tests.simulation.process import Rates
from tests.simulation.weather import Weather

pytestmark = pytest.mark.long

SEEDS = range(12)
FEW = 4
UNWANTED = [OutboundPlan(seed, Weather(rates=Rates(target=0.3)), contacts=2, opt_outs=5, messages=20) for seed in SEEDS]
QUEUEING = [
    OutboundPlan(seed, Weather(longest_delivery=3.0), contacts=3, opt_outs=10, messages=40, provider_slots=1)
    for seed in SEEDS
]
CAPPED = [OutboundPlan(seed, Weather(nodes=2), rates=(6, 20), messages=30) for seed in SEEDS]
STRUCK = [OutboundPlan(seed, Weather(nodes=2, blows=4, longest_delivery=4.0), messages=20) for seed in SEEDS]
WEDGED = [
    OutboundPlan(seed, Weather(nodes=3, longest_delivery=4.0, rates=Rates(wedge=0.6, target=0.3)), messages=40)
    for seed in SEEDS
]
FAILING = [OutboundPlan(seed, Weather(rates=Rates(target=0.9)), messages=20) for seed in SEEDS]
FLOODED = [
    OutboundPlan(seed, Weather(concurrency=2, longest_delivery=1.0), rates=(0, 0, 0), flood=True) for seed in SEEDS
]
LATE = [OutboundPlan(seed, Weather(nodes=2), rates=(6,), messages=40) for seed in SEEDS]


def opt_outs_are_looked_at_only_when_a_message_comes_in(patch: pytest.MonkeyPatch) -> None:
    for module in (lane_module, taking):
        patch.setattr(module, "opted_out_among", lambda admitted, opted: {})


def an_opt_out_does_not_wait_for_sends_to_begin(patch: pytest.MonkeyPatch) -> None:
    async def at_once(database: object, tenant_id: str, hashed: str) -> None:
        return

    patch.setattr(pipe, "until_begun", at_once)


def a_send_begins_however_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sender, "_left", lambda self, parcel: 1000.0)
    patch.setattr(beginning, "_FRESH", timedelta(seconds=1000))


def caps_are_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lane_module, "within_caps", lambda candidates, shared, capped, now: list(candidates))
    patch.setattr(OutboundLane, "_walk", _free_at_once)


_real_walk = OutboundLane._walk


def _free_at_once(self: OutboundLane, now: datetime) -> Step[Walk]:
    walk = yield from _real_walk(self, now)
    return Walk([each._replace(free_at=now) for each in walk.tenants], walk.whole)


def one_tenant_goes_first(patch: pytest.MonkeyPatch) -> None:
    def first_alone(self: OutboundLane, now: datetime) -> Step[Walk]:
        self._after = ""
        walk = yield from _real_walk(self, now)
        return Walk(walk.tenants[:1], True)

    patch.setattr(OutboundLane, "_walk", first_alone)


def a_rescue_gives_the_attempt_back(patch: pytest.MonkeyPatch) -> None:
    def give_back(queries: Any, overdue: Sequence[Row], now: datetime) -> Step[None]:
        yield queries.reschedule(rows=[(row[0], now, 1, row[2]) for row in overdue], now=now)

    patch.setattr(settling, "rescue", give_back)


def settling_is_not_fenced(patch: pytest.MonkeyPatch) -> None:
    text = """-- name: hold
SELECT q.message_id FROM message_queue q JOIN :rows(message_id text, token bigint) ON q.message_id = rows.message_id
WHERE q.lease_until IS NOT NULL
"""
    patch.setattr(lane_module.queries, "hold", next(parse_queries(text)))


def attempts_have_no_end(patch: pytest.MonkeyPatch) -> None:
    real = settling.settle

    def once_more(queries: Any, settlements: Sequence[Any], now: datetime) -> Step[list[Any]]:
        return (yield from real(queries, [_with_one_more(each) for each in settlements], now))

    patch.setattr(settling, "settle", once_more)


def _with_one_more(settlement: Any) -> Any:
    row: Parcel = settlement.row
    more = row._replace(last_attempt=row.attempt_count + 1)
    return structs.replace(settlement, row=more) if isinstance(settlement.outcome, Retry) else settlement


def the_expired_are_sent(patch: pytest.MonkeyPatch) -> None:
    def nothing(candidates: Sequence[Candidate], gone: set[str], now: datetime) -> dict[str, Any]:
        return {}

    none = "-- name: expired\nSELECT message_id FROM message_queue WHERE :now = '' AND :limit = 0\n"
    patch.setattr(lane_module, "overtaken", nothing)
    patch.setattr(lane_module.queries, "expired", next(parse_queries(none)))


def problems(plans: list[OutboundPlan]) -> Iterator[str]:
    return (problem for plan in plans for problem in play_outbound(plan).problems)


@pytest.mark.parametrize("plans", [UNWANTED, QUEUEING, CAPPED, STRUCK, WEDGED, FAILING, FLOODED, LATE])
def test_nothing_is_reported_of_the_real_outbound_pipe(plans: list[OutboundPlan]) -> None:
    assert list(problems(plans[:FEW])) == []


@pytest.mark.parametrize(
    ("plant", "plans", "report"),
    [
        (opt_outs_are_looked_at_only_when_a_message_comes_in, UNWANTED, "opt-out was stored"),
        (an_opt_out_does_not_wait_for_sends_to_begin, QUEUEING, "was acknowledged"),
        (a_send_begins_however_late, QUEUEING, "was acknowledged"),
        (caps_are_not_asked, CAPPED, "claimed more than"),
        (one_tenant_goes_first, FLOODED, "for its turn"),
        (a_rescue_gives_the_attempt_back, STRUCK, "was begun twice"),
        (settling_is_not_fenced, WEDGED, "which n"),
        (attempts_have_no_end, FAILING, "was begun"),
        (the_expired_are_sent, LATE, "after it had expired"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_bug_in_the_outbound_pipe_is_reported(
    plant: Any, plans: list[OutboundPlan], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(report in problem for problem in problems(plans))
