"""What the machinery below the pipes tells of itself."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.engine import Lease, Room, WatchedLane
from pillarbox.telemetry import Metrics
from pillarbox.testing import RecordingTarget, Rehearsal, open_test_box


@pytest.fixture
async def rehearsal() -> AsyncIterator[Rehearsal]:
    async with open_test_box() as opened:
        yield opened


def value(metrics: Metrics, series: str) -> float:
    lines = metrics.exposition().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"pillarbox_{series} ")).split()[-1])


@pytest.mark.parametrize("pipe", ["inbound", "hooks", "outbound"])
@pytest.mark.parametrize("name", ["turn_seconds_count", "turn_failures_total", "claimed_total", "leases_lost_total"])
def test_every_pipe_is_there_from_the_start(name: str, pipe: str) -> None:
    assert value(Metrics(), f'{name}{{pipe="{pipe}"}}') == 0


async def test_turns_and_claims_are_counted(rehearsal: Rehearsal) -> None:
    target, box = RecordingTarget(), rehearsal.box
    box.inbound.target("agent")(target)
    await box.sessions.open(session_id="s", target={"kind": "python", "name": "agent"})
    await box.inbound.enqueue(session_id="s", origin="test", content="hello")
    await rehearsal.work()
    assert value(box.metrics, 'claimed_total{pipe="inbound"}') == 1
    assert value(box.metrics, 'turn_seconds_count{pipe="inbound"}') >= 1
    assert value(box.metrics, 'leases_lost_total{pipe="inbound"}') == 0


async def test_a_hold_that_was_lost_is_counted(rehearsal: Rehearsal) -> None:
    box = rehearsal.box
    lane = WatchedLane(box.inbound.lane, box.metrics.works.lanes["inbound"])
    lease, now = Lease("here", timedelta(minutes=1)), rehearsal.clock.now()
    await box.sessions.open(session_id="s", target={"kind": "http", "url": "http://127.0.0.1:9/"})
    await box.inbound.enqueue(session_id="s", origin="test", content="hello")
    claimed = await lane.claim(lease, room=Room(4, 4), now=now)
    assert len(lane.renew(claimed, lease, now=now)) == 1
    await box.sessions.close("s")
    assert list(lane.renew(claimed, lease, now=now)) == []
    assert value(box.metrics, 'leases_lost_total{pipe="inbound"}') == 1


async def test_what_waits_for_the_database_is_shown_when_asked(rehearsal: Rehearsal) -> None:
    assert value(rehearsal.box.metrics, "database_waiting") == 0
