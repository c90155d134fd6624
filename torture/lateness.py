"""How late a call may come that somebody had stopped, and what excuses one that comes later."""

from __future__ import annotations

from torture.blame import GOES_ON
from torture.evidence import Entry, Evidence

ON_ITS_WAY = 0.3
"""Seconds that a request which had left may take to be read, besides those in which the target itself stood still."""


def is_late(evidence: Evidence, entry: Entry, stopped: float, *, within: float = ON_ITS_WAY) -> bool:
    """Whether a call came so long after it was stopped that neither its way nor a slow target explains it.

    Nor was its own node stopped just when it was about to make it.
    """
    stalls = (min(each["until"], entry["at"]) - max(each["at"], stopped) for each in evidence.stalls)
    return entry["at"] - stopped > within + sum(max(0.0, stall) for stall in stalls) and not any(
        fault["fault"] == "paused"
        and fault["node"] == entry["node"]
        and fault["until"] >= stopped - ON_ITS_WAY
        and fault["at"] <= entry["at"] <= fault["until"] + GOES_ON
        for fault in evidence.faults
    )


def was_kept_from_hearing(evidence: Evidence, entry: Entry) -> bool:
    """Whether answers to the node that made the call may just have come late; one that was lost is asked for again."""
    return any(
        (fault["fault"] == "starved" or (fault["fault"] == "black hole" and fault["node"] == entry["node"]))
        and fault["at"] <= entry["at"] <= fault["until"] + GOES_ON
        for fault in evidence.faults
    )
