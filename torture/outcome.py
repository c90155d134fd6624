"""What a round came to, counted from its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from torture.blame import ACCEPTED, blamed
from torture.evidence import Entry, Evidence
from torture.rules import Violation, check, duplicates


@dataclass
class Outcome:
    """The figures of one round, and what was against a promise."""

    seed: int
    seconds: float = 0.0
    acknowledged: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    arrivals: Counter[str] = field(default_factory=Counter)
    repetitions: Counter[str] = field(default_factory=Counter)
    repeated_by: Counter[str] = field(default_factory=Counter)
    old_tokens: Counter[str] = field(default_factory=Counter)
    looks: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    folder: str = ""


def judge(outcome: Outcome, evidence: Evidence) -> None:
    """Count what the evidence holds, and add what is against a rule."""
    states = _states(evidence)
    for entry in _acknowledged(evidence):
        outcome.acknowledged[_name(entry)] += 1
        outcome.ended[f"{_name(entry)}: {states.get(_thing(entry), 'no row')}"] += 1
    outcome.faults = Counter(fault["fault"] for fault in evidence.faults)
    outcome.faults["receiver killed"] = len(evidence.noted("hooks", "receiver killed"))
    outcome.arrivals = Counter(entry["pipe"] for entry in evidence.arrivals)
    outcome.repetitions = Counter(duplicates(evidence))
    outcome.repeated_by = blamed(evidence)
    outcome.old_tokens = under_old_tokens(evidence)
    outcome.looks = Counter({"at the tables during a round": len(evidence.moments)})
    outcome.looks["at what the API reports"] = len(evidence.reported)
    outcome.looks["at recipients who opted out"] = len(evidence.noted("outbound", "opted out"))
    outcome.looks["at sessions that were closed"] = len(evidence.noted("inbound", "closed"))
    outcome.violations += check(evidence)


def under_old_tokens(evidence: Evidence) -> Counter[str]:
    """What became of calls whose session had seen a later claim's token; only half of the sessions refuse them."""
    highest: dict[str, int] = {}
    counted: Counter[str] = Counter()
    for entry in evidence.arrived("inbound"):
        if entry["token"] < highest.get(entry["session"], 0):
            if entry["answer"] == "stale":
                counted["refused by the target"] += 1
            elif entry["answer"] in ACCEPTED:
                counted["accepted"] += 1
        highest[entry["session"]] = max(entry["token"], highest.get(entry["session"], 0))
    return counted


def _acknowledged(evidence: Evidence) -> Iterator[Entry]:
    for entry in evidence.ledger:
        if entry["kind"] in ("acknowledged", "received") or (entry["pipe"], entry["kind"]) == ("inbox", "processed"):
            yield entry


def _name(entry: Entry) -> str:
    if entry["kind"] == "received":
        return "hooks by receiver"
    if entry["pipe"] == "outbound" and entry["place"].startswith("c/"):
        return "outbound in own transactions"
    return str(entry["pipe"])


def _thing(entry: Entry) -> tuple[str, object]:
    """What an acknowledgement is about, as the tables name it; a receiver is not told the number of its event."""
    if entry["kind"] == "received":
        return "prompt", f"{entry['session']}:{entry['n']}"
    return entry["pipe"], entry["key"] if entry["pipe"] == "inbox" else entry["id"]


def _states(evidence: Evidence) -> dict[tuple[str, object], str]:
    """How each row of the tables stands at the end."""
    states: dict[tuple[str, object], str] = {("inbound", row.id): row.status for row in evidence.messages}
    states |= {("outbound", row.id): row.status for row in evidence.sent}
    states |= {("inbox", row.key): row.status for row in evidence.keys}
    for event in evidence.events:
        states["hooks", event.id] = event.status
        states["prompt", msgspec.json.decode(event.payload).get("prompt")] = event.status
    return states
