"""`python -m tests.model`: looks at every order of events, and shows the shortest way to the harm when a rule is left out."""

from __future__ import annotations

import sys

from tests.model.claim_model import MORE_FAULTS, RULES, Result, explore


def main() -> int:
    """What was looked at and found; 0 when the whole protocol is sound and no part of it can be left out."""
    wholes = {"one crash and one freeze": explore(), "two of each": explore(start=MORE_FAULTS)}
    for faults, whole in wholes.items():
        print(f"with {faults}: {whole.states:,} states, {whole.endings:,} of them endings; {_said(whole)}")
    broken = {rule: explore(protocol) for rule, protocol in RULES.items()}
    for rule, result in broken.items():
        print(f"\nwithout {rule}: {_said(result)}")
    sound = all(whole.finding is None for whole in wholes.values())
    return 0 if sound and all(result.finding for result in broken.values()) else 1


def _said(result: Result) -> str:
    if result.finding is None:
        return "no rule is broken in any"
    steps = (f"  {number}. {step}" for number, step in enumerate(result.finding.way, 1))
    return "\n".join([result.finding.problem, *steps])


if __name__ == "__main__":
    sys.exit(main())
