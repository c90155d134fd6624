"""The checker: every rule looks at the evidence and tells what is against it; no rule trusts what another has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from torture.blame import is_hindered
from torture.evidence import Evidence
from torture.rules_hooks import HOOK_RULES
from torture.rules_inbound import INBOUND_RULES
from torture.rules_inbox import INBOX_RULES
from torture.rules_outbound import OUTBOUND_RULES
from torture.rules_reported import REPORTED_RULES

Rule = Callable[[Evidence], Iterator[str]]


class Violation(NamedTuple):
    """A promise that was broken, and by what."""

    rule: str
    detail: str


def answers_are_expected(evidence: Evidence) -> Iterator[str]:
    for entry in evidence.noted("answers", "unexpected"):
        yield f"{entry['what']} was answered {entry['status']}: {entry['answer']}"


def whoever_is_told_to_stop_ends_well(evidence: Evidence) -> Iterator[str]:
    """A node that is told to stop ends with 0 unless its database was away just then."""
    for fault in evidence.faults:
        if fault["fault"] == "sigterm" and fault["exit"] != 0 and not is_hindered(fault, evidence):
            yield f"{fault['node']} ended with {fault['exit']} {fault['at']:.1f}"


def nobody_ends_unless_told_or_struck(evidence: Evidence) -> Iterator[str]:
    """Who is about to be struck, or told to stop, still runs."""
    for fault in evidence.faults:
        if fault["fault"] == "found dead":
            yield f"{fault['node']} had ended by itself before {fault['at']:.1f}"


def no_log_tells_of_a_bug(evidence: Evidence) -> Iterator[str]:
    for line in evidence.bugs:
        yield f"{line['node']} said: {line['said']}"


RULES: dict[str, Rule] = {
    "answers": answers_are_expected,
    "living": nobody_ends_unless_told_or_struck,
    "bugs": no_log_tells_of_a_bug,
    "stopping": whoever_is_told_to_stop_ends_well,
    **INBOUND_RULES,
    **HOOK_RULES,
    **OUTBOUND_RULES,
    **INBOX_RULES,
    **REPORTED_RULES,
}


def check(evidence: Evidence) -> list[Violation]:
    """Everything that is against a rule."""
    return [Violation(name, detail) for name, rule in RULES.items() for detail in rule(evidence)]


def duplicates(evidence: Evidence) -> dict[str, int]:
    """How many arrivals of each pipe were not the first of their message."""
    counted = Counter((entry["pipe"], entry["id"]) for entry in evidence.arrivals)
    again: Counter[str] = Counter()
    for (pipe, _), count in counted.items():
        again[pipe] += count - 1
    return dict(again)
