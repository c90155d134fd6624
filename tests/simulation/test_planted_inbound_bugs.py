"""A checker that finds nothing proves nothing: each of these inbound lanes has one bug, which must be reported."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pillarbox.engine import Delivered, Outcome, Retry
from pillarbox.inbound import strands
from pillarbox.inbound.lane import Held, InboundLane
from pillarbox.inbound.model import Parcel
from pillarbox.inbound.pipe import Inbound
from pillarbox.storage import Row, Step
from pillarbox.storage.queries import parse_queries
from tests.simulation.inbound_story import InboundPlan, Tamper, play_inbound
from tests.simulation.process import Rates
from tests.simulation.weather import Weather

SEEDS = range(12)
FEW = 4
BUSY = [InboundPlan(seed, Weather(latency=0.05, longest_delivery=3), sessions=2, messages=20) for seed in SEEDS]
FAILING = [InboundPlan(seed, Weather(rates=Rates(target=0.5)), sessions=2, messages=20) for seed in SEEDS]
WEDGED = [InboundPlan(seed, Weather(nodes=3, rates=Rates(wedge=0.3)), messages=20) for seed in SEEDS]
STRUCK = [InboundPlan(seed, Weather(nodes=2, blows=4, longest_delivery=4.0), messages=20) for seed in SEEDS]
CLOSING = [InboundPlan(seed, Weather(nodes=2, longest_delivery=5.0), messages=20, closes=3) for seed in SEEDS]
EXPIRING = [InboundPlan(seed, Weather(nodes=2, longest_delivery=5.0), messages=20, expiries=8) for seed in SEEDS]
STARTING = [InboundPlan(seed, Weather(), messages=20, starting=3, gate=8.0) for seed in SEEDS]
CUT = [InboundPlan(seed, Weather(poll=1.0, rates=Rates(store=0.3)), messages=20) for seed in SEEDS]


class Leapfrogs(InboundLane):
    """The next message passes one that waits for its retry."""

    def _settled_strand(self, settlement: Held, *rest: Any) -> tuple[object, ...]:
        settled = super()._settled_strand(settlement, *rest)
        if isinstance(settlement.outcome, Retry) and settlement.row.message.seq + 1 < rest[1].next_seq:
            return settled[0], settlement.row.message.seq + 1, *settled[2:]
        return settled


class SettlesUnfenced(InboundLane):
    def _settle(self, settlements: Sequence[Held], now: datetime) -> Step[list[Held]]:
        locked = yield from strands.lock({settlement.strand.key for settlement in settlements})
        return (yield from super()._settle([_as_held_now(each, locked) for each in settlements], now))


def _as_held_now(settlement: Held, locked: dict[str, strands.Locked]) -> Held:
    strand = settlement.strand
    return structs.replace(settlement, strand=replace(strand, token=locked[strand.key].token))


class RescuesNobody(InboundLane):
    def _rescue_strands(self, overdue: list[Row], now: datetime) -> Step[None]:
        yield from ()


class TakesWhatOthersHold(InboundLane):
    def _claim(self, lease: Any, room: Any, now: datetime) -> Step[Any]:
        return (yield from super()._claim(lease, room, now + lease.length / 2))


class NeverDueAgain(InboundLane):
    async def next_due(self, *, now: datetime) -> datetime | None:
        return None


def with_lane(lane: type[InboundLane]) -> Tamper:
    def tamper(inbound: Inbound) -> None:
        inbound.lane.__class__ = lane

    return tamper


def marks_before_it_delivers(inbound: Inbound) -> None:
    deliver = inbound.drain._attempt._deliver

    async def hurry(parcel: Parcel) -> Outcome:
        return Delivered() if parcel.attempt_count == 1 else await deliver(parcel)

    inbound.drain._attempt._deliver = hurry


def waits_for_no_start(inbound: Inbound) -> None:
    inbound._policy = replace(inbound._policy, startup_gate=timedelta(0))
    deliver = inbound._targets.deliver

    async def at_once(parcel: Parcel) -> Outcome:
        return await deliver(parcel)

    inbound.drain._attempt._deliver = at_once


def does_not_hear_of_closes(inbound: Inbound) -> None:
    inbound.drain.renewal._renew = lambda held, lease, now: held
    inbound.drain.drop = lambda key, *, row_id=None: None  # type: ignore[method-assign]


def a_close_forgets_who_delivers(patch: pytest.MonkeyPatch) -> None:
    text = "-- name: close_strand\nUPDATE inbound_strand SET state = 'closed', open_count = 0 WHERE session_id = :session_id\n"
    patch.setattr(strands.queries, "close_strand", next(parse_queries(text)))


def an_expired_head_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strands.queries, "replace_head", strands.queries.shorten)


def a_session_takes_messages_after_its_close(patch: pytest.MonkeyPatch) -> None:
    text = """-- name: lock_strands
SELECT session_id, 'open', next_seq, head_seq, token, CASE WHEN lease_until IS NULL THEN 0 ELSE 1 END, open_count
FROM inbound_strand WHERE session_id :in(session_ids text) ORDER BY session_id
"""
    patch.setattr(strands.queries, "lock_strands", next(parse_queries(text)))


def a_new_head_need_not_wait_for_the_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strands.Locked, "due", lambda self, now, gate: now)


def repeats_are_not_recognized(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(strands.Checked, "source", property(lambda self: None))
    patch.setattr(strands, "_columns", _under_another_name(strands._columns))


def _under_another_name(real: Any) -> Any:
    def columns(item: Any, seq: int, now: datetime) -> tuple[object, ...]:
        values = list(real(item, seq, now))
        values[2] = f"story {seq}"
        return tuple(values)

    return columns


def problems(plans: list[InboundPlan], tamper: Tamper = lambda inbound: None) -> Iterator[str]:
    return (problem for plan in plans for problem in play_inbound(plan, tamper=tamper).problems)


@pytest.mark.parametrize("plans", [BUSY, FAILING, WEDGED, STRUCK, CLOSING, EXPIRING, STARTING, CUT])
def test_nothing_is_reported_of_the_real_inbound_lane(plans: list[InboundPlan]) -> None:
    assert list(problems(plans[:FEW])) == []


@pytest.mark.parametrize(
    ("tamper", "plans", "report"),
    [
        (with_lane(Leapfrogs), FAILING, "is the first"),
        (with_lane(SettlesUnfenced), WEDGED, "which n"),
        (with_lane(RescuesNobody), STRUCK, "was not delivered"),
        (with_lane(TakesWhatOthersHold), STRUCK, "which n"),
        (with_lane(NeverDueAgain), FAILING, "was not delivered"),
        (marks_before_it_delivers, BUSY, "counts as delivered under token"),
        (waits_for_no_start, STARTING, "which was still starting"),
        (does_not_hear_of_closes, CLOSING, "after it was given up"),
    ],
    ids=[
        "leapfrogs",
        "settles unfenced",
        "rescues nobody",
        "takes what others hold",
        "never due again",
        "marks before it delivers",
        "waits for no start",
        "does not hear of closes",
    ],
)
def test_a_bug_in_the_inbound_lane_is_reported(tamper: Tamper, plans: list[InboundPlan], report: str) -> None:
    assert any(report in problem for problem in problems(plans, tamper))


@pytest.mark.parametrize(
    ("plant", "plans", "report"),
    [
        (a_close_forgets_who_delivers, CLOSING, "miscounts"),
        (an_expired_head_is_forgotten, EXPIRING, "miscounts"),
        (a_session_takes_messages_after_its_close, CLOSING, "which is closed"),
        (a_new_head_need_not_wait_for_the_start, STARTING, "had its time to start"),
        (repeats_are_not_recognized, CUT, "came in twice"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_bug_in_the_inbound_steps_is_reported(
    plant: Any, plans: list[InboundPlan], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(report in problem for problem in problems(plans))
