"""The lanes that are simulated: how each makes a plan of a seed, and plays it.

`engine` is the real loop on a made-up table, which can fail in ways that no database does; the others are the real pipes with
their own SQL on a database in memory.
"""

from __future__ import annotations

from tests.simulation.hooks_story import hooks_plan_from, play_hooks
from tests.simulation.inbound_story import inbound_plan_from, play_inbound
from tests.simulation.inbox_story import inbox_plan_from, play_inbox
from tests.simulation.outbound_story import outbound_plan_from, play_outbound
from tests.simulation.story import Ending
from tests.simulation.world import plan_from, play

PIPES = ("inbound", "hooks", "outbound", "inbox")
LANES = ("engine", *PIPES)


def play_seed(lane: str, seed: int) -> tuple[object, Ending]:
    """The plan that a seed makes for a lane, and how it ends."""
    match lane:
        case "inbound":
            inbound_plan = inbound_plan_from(seed)
            return inbound_plan, play_inbound(inbound_plan)
        case "hooks":
            hooks_plan = hooks_plan_from(seed)
            return hooks_plan, play_hooks(hooks_plan)
        case "outbound":
            outbound_plan = outbound_plan_from(seed)
            return outbound_plan, play_outbound(outbound_plan)
        case "inbox":
            inbox_plan = inbox_plan_from(seed)
            return inbox_plan, play_inbox(inbox_plan)
        case "engine":
            plan = plan_from(seed)
            return plan, play(plan)
        case _:
            raise ValueError(f"There is no lane {lane}; those are {', '.join(LANES)}.")


def complain(lane: str, seed: int) -> str | None:
    """Play a seed; what went wrong with it, None when nothing did."""
    return complaint(lane, seed, *play_seed(lane, seed))


def complaint(lane: str, seed: int, plan: object, ending: Ending) -> str | None:
    """What went wrong with a seed, its story, and how to see it again; None when nothing did."""
    if not ending.problems:
        return None
    story, problems = "\n".join(ending.trace[-60:]), "\n".join(ending.problems)
    again = f"python -m tests.simulation --lane {lane} --first {seed} --seeds 1"
    return f"{lane} seed {seed}: {plan}\n{story}\n{problems}\nto see it again: {again}"
