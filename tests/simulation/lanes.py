"""The lanes that are simulated: how each makes a plan of a seed, and plays it."""

from __future__ import annotations

from tests.simulation.hooks_story import hooks_plan_from, play_hooks
from tests.simulation.outbound_story import outbound_plan_from, play_outbound
from tests.simulation.story import Ending
from tests.simulation.world import plan_from, play

LANES = ("inbound", "hooks", "outbound")


def play_seed(lane: str, seed: int) -> tuple[object, Ending]:
    """The plan that a seed makes for a lane, and how it ends."""
    match lane:
        case "hooks":
            hooks_plan = hooks_plan_from(seed)
            return hooks_plan, play_hooks(hooks_plan)
        case "outbound":
            outbound_plan = outbound_plan_from(seed)
            return outbound_plan, play_outbound(outbound_plan)
        case "inbound":
            plan = plan_from(seed)
            return plan, play(plan)
        case _:
            raise ValueError(f"There is no lane {lane}; those are {', '.join(LANES)}.")


def complaint(lane: str, seed: int) -> str | None:
    """What went wrong with a seed, its story, and how to see it again; None when nothing did."""
    plan, ending = play_seed(lane, seed)
    if not ending.problems:
        return None
    story, problems = "\n".join(ending.trace[-60:]), "\n".join(ending.problems)
    again = f"python -m tests.simulation --lane {lane} --first {seed} --seeds 1"
    return f"{lane} seed {seed}: {plan}\n{story}\n{problems}\nto see it again: {again}"
