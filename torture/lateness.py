"""How late a call may come that somebody had stopped, and what excuses one that comes later."""

from __future__ import annotations

from collections.abc import Collection

from torture.blame import GOES_ON
from torture.evidence import Entry, Evidence

ON_ITS_WAY = 0.3
"""Seconds that a request which had left may take to be read, besides those in which the target itself stood still."""

STOOD_STILL = frozenset({"paused"})
"""A process makes the call that it was about to make when it goes on."""

DEAF = STOOD_STILL | {"black hole", "starved"}
"""It may hear late that it need not call at all; an answer that was lost, and did not just come late, is asked for again."""


def is_late(
    evidence: Evidence,
    entry: Entry,
    stopped: float,
    *,
    within: float = ON_ITS_WAY,
    kept_by: Collection[str] = STOOD_STILL,
) -> bool:
    """Whether a call came so long after it was stopped that neither its way, nor a slow target, nor a fault explains it.

    A fault does that was going on at its node when the call should have come at the latest, or that began during such a one.
    """
    stalls = (min(each["until"], entry["at"]) - max(each["at"], stopped) for each in evidence.stalls)
    latest: float = stopped + within + sum(max(0.0, stall) for stall in stalls)
    felt = (
        fault
        for fault in evidence.faults
        if fault["fault"] in kept_by and (fault["fault"] == "starved" or fault["node"] == entry["node"])
    )
    for fault in sorted(felt, key=lambda fault: float(fault["at"])):
        if fault["at"] <= latest:
            latest = max(latest, fault["until"] + GOES_ON)
    return bool(entry["at"] > latest)
