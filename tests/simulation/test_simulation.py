import os
from dataclasses import replace

import pytest

from tests.simulation.process import Rates
from tests.simulation.story import Ending
from tests.simulation.world import Plan, plan_from, play

SEEDS = int(os.environ.get("PILLARBOX_SIMULATION_SEEDS", "400"))
SHARE = 50
REPLAY = "PILLARBOX_SIMULATION_SEED"


def complain(plan: Plan, ending: Ending) -> str:
    story = "\n".join(ending.trace[-60:])
    problems = "\n".join(ending.problems)
    replay = f"{REPLAY}={plan.seed} pytest tests/simulation -k one_seed"
    return f"seed {plan.seed}: {plan}\n{story}\n{problems}\nto see it again: {replay}"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_whatever_fails_the_promises_hold(first: int) -> None:
    for seed in range(first, min(first + SHARE, SEEDS)):
        plan = plan_from(seed)
        ending = play(plan)
        assert not ending.problems, complain(plan, ending)


def test_the_promises_hold_for_one_seed() -> None:
    plan = plan_from(int(os.environ.get(REPLAY, "0")))
    ending = play(plan)
    assert not ending.problems, complain(plan, ending)


def test_a_seed_tells_the_same_story_every_time() -> None:
    for seed in range(20):
        assert play(plan_from(seed)).trace == play(plan_from(seed)).trace


@pytest.mark.parametrize(
    "plan",
    [
        Plan(seed=1, nodes=1, rows=4, keys=2, spread=1),
        Plan(seed=2, nodes=2, rows=4, keys=2, most=3, spread=3),
        Plan(seed=3, nodes=1, rows=4, keys=2, most=3, spread=100),
    ],
    ids=str,
)
def test_a_node_may_be_killed_at_every_await(plan: Plan) -> None:
    whole = play(plan)
    assert whole.steps > 50
    for step in range(1, whole.steps + 1):
        killed = replace(plan, kill_at_step=step)
        ending = play(killed)
        assert not ending.problems, complain(killed, ending)


def test_every_due_time_is_kept_when_nothing_is_in_the_way() -> None:
    for seed in range(20):
        plan = Plan(seed=seed, nodes=1 + seed % 3, concurrency=8, rates=Rates(target=0.4))
        assert plan.quiet
        ending = play(plan)
        assert any("Retry" in line for line in ending.trace)
        assert not ending.problems, complain(plan, ending)


def test_a_full_destination_is_not_asked_for_again_and_again() -> None:
    for seed in range(10):
        plan = Plan(seed=seed, keys=4, concurrency=2, lease=30, timeout=20, longest_delivery=18, latency=0.001)
        ending = play(plan)
        assert not ending.problems, complain(plan, ending)
