"""Checks the kept folder of a round again, with the rules as they are now."""

from __future__ import annotations

from pathlib import Path

import msgspec

from torture.evidence import gather
from torture.outcome import Outcome, judge
from torture.places import kept_database
from torture.plan import Plan

_NAME = "plan.json"


def note(plan: Plan, folder: Path) -> None:
    """Leave in a round's folder what it takes to check it again."""
    (folder / _NAME).write_bytes(msgspec.json.encode(plan))


def check_again(folder: Path) -> Outcome:
    """What the checker says of a folder that was kept; what a round notices only while it runs is not said again."""
    plan = msgspec.json.decode((folder / _NAME).read_bytes(), type=Plan)
    outcome = Outcome(plan.seed, folder=str(folder))
    with kept_database(plan.database, folder) as url:
        judge(outcome, gather(folder, url, nodes=plan.nodes, lease=plan.lease, inbox_lease=plan.inbox_lease))
    return outcome
