"""The real pipes in virtual time, on a real schema in memory: whatever fails, the promises hold."""

import os
from dataclasses import replace

import pytest

from tests.simulation.__main__ import main
from tests.simulation.hooks_story import HooksPlan, play_hooks
from tests.simulation.inbound_story import InboundPlan, play_inbound
from tests.simulation.lanes import PIPES, complain, play_seed
from tests.simulation.outbound_story import OutboundPlan, play_outbound
from tests.simulation.process import Rates
from tests.simulation.weather import Weather

SEEDS = int(os.environ.get("PILLARBOX_SIMULATION_LANE_SEEDS", "80"))
SHARE = 50


@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
@pytest.mark.parametrize("lane", PIPES)
def test_whatever_fails_the_promises_of_a_pipe_hold(lane: str, first: int) -> None:
    for seed in range(first, min(first + SHARE, SEEDS)):
        assert complain(lane, seed) is None


@pytest.mark.parametrize("lane", PIPES)
def test_a_seed_of_a_pipe_tells_the_same_story_every_time(lane: str) -> None:
    for seed in range(10):
        assert play_seed(lane, seed)[1].trace == play_seed(lane, seed)[1].trace


def test_messages_reach_their_session_wherever_their_node_is_killed() -> None:
    plan = InboundPlan(3, Weather(spread=3), sessions=2, messages=6, closes=1)
    whole = play_inbound(plan)
    assert whole.steps > 50
    for step in range(1, whole.steps + 1, 3):
        ending = play_inbound(replace(plan, weather=replace(plan.weather, kill_at_step=step)))
        assert not ending.problems, (step, ending.problems, ending.trace)


def test_events_are_delivered_wherever_their_node_is_killed() -> None:
    plan = HooksPlan(1, Weather(spread=3), sessions=2, bursts=3)
    whole = play_hooks(plan)
    assert whole.steps > 50
    for step in range(1, whole.steps + 1, 3):
        ending = play_hooks(replace(plan, weather=replace(plan.weather, kill_at_step=step)))
        assert not ending.problems, (step, ending.problems, ending.trace)


def test_messages_are_sent_wherever_their_node_is_killed() -> None:
    plan = OutboundPlan(2, Weather(spread=3), rates=(0, 60), messages=5, opt_outs=1)
    whole = play_outbound(plan)
    assert whole.steps > 50
    for step in range(1, whole.steps + 1, 3):
        ending = play_outbound(replace(plan, weather=replace(plan.weather, kill_at_step=step)))
        assert not ending.problems, (step, ending.problems, ending.trace)


def test_one_session_that_always_fails_does_not_hold_up_the_others() -> None:
    for seed in range(10):
        weather = Weather(concurrency=2, nodes=1 + seed % 2)
        inbound = play_inbound(InboundPlan(seed, weather, stuck=True, sessions=4, messages=16, destinations=2))
        assert not inbound.problems, inbound.problems
        plan = HooksPlan(seed, Weather(concurrency=2, nodes=1 + seed % 2), stuck=True, sessions=4, bursts=12)
        ending = play_hooks(plan)
        assert not ending.problems, ending.problems


def test_one_tenant_that_floods_does_not_hold_up_the_others() -> None:
    for seed in range(10):
        weather = Weather(concurrency=2 + seed % 3, longest_delivery=1.0)
        ending = play_outbound(OutboundPlan(seed, weather, rates=(0, 0, 0), messages=8, flood=True))
        assert not ending.problems, ending.problems


@pytest.mark.parametrize(
    ("lane", "endings"),
    [
        ("inbox", {"leased -> processed", "leased -> free", "free -> leased", "kill", "suspended", "ahead"}),
        (
            "inbound",
            {"-> delivered", "-> failed", "-> pending", "processing -> expired", "is closed", "kill", "ahead"},
        ),
        (
            "hooks",
            {"-> delivered", "-> superseded", "-> dead", "-> failed", "kill", "suspended", "wedged", "ahead"},
        ),
        ("outbound", {"-> sent", "-> failed", "-> expired", "-> canceled", "attempt 2", "is acknowledged", "kill"}),
    ],
    ids=["inbox", "inbound", "hooks", "outbound"],
)
def test_the_stories_of_a_few_seeds_tell_of_every_ending(lane: str, endings: set[str]) -> None:
    for seed in range(30):
        story = "\n".join(play_seed(lane, seed)[1].trace)
        endings = {ending for ending in endings if ending not in story}
        if not endings:
            return
    assert not endings


def test_seeds_can_be_played_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--lane", "hooks", "--lane", "outbound", "--seeds", "2"]) == 0
    shown = capsys.readouterr().out
    assert "hooks: 2 seeds from 0" in shown
    assert "outbound: 2 seeds from 0" in shown


def test_failures_of_the_store_are_survived_without_loss() -> None:
    for seed in range(10):
        weather = Weather(nodes=2, poll=1.0, rates=Rates(store=0.5))
        assert not play_inbound(InboundPlan(seed, weather, closes=1)).problems
        assert not play_hooks(HooksPlan(seed, weather)).problems
        assert not play_outbound(OutboundPlan(seed, weather)).problems


@pytest.mark.parametrize("seed", [288, 549, 1721])
def test_an_attempt_that_was_begun_keeps_its_number(seed: int) -> None:
    assert complain("hooks", seed) is None
