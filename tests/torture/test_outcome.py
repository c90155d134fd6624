"""Whoever reads a run's figures can see that the sum closes, what was broken, and where to look."""

from collections import Counter

from scripts.reliability import BROKEN
from tests.torture.ledgers import a_good_round
from torture.outcome import Outcome, judge
from torture.plan import Plan
from torture.result import summary, table, told
from torture.rules import RULES, Violation


def test_every_acknowledged_message_is_counted_under_how_it_ended() -> None:
    outcome = Outcome(seed=1)
    judge(outcome, a_good_round())
    assert outcome.ended == {
        "inbound: delivered": 3,
        "inbound: expired": 1,
        "hooks: superseded": 1,
        "hooks: delivered": 2,
        "hooks by receiver: delivered": 2,
        "outbound: delivered": 2,
        "outbound: canceled": 2,
        "outbound in own transactions: delivered": 1,
        "inbox: processed": 2,
    }
    by_pipe: Counter[str] = Counter()
    for name, count in outcome.ended.items():
        by_pipe[name.partition(": ")[0]] += count
    assert by_pipe == outcome.acknowledged


def test_an_acknowledged_message_without_a_row_is_counted_as_that() -> None:
    outcome, round_ = Outcome(seed=1), a_good_round()
    round_.messages.pop(0)
    judge(outcome, round_)
    assert outcome.ended["inbound: no row"] == 1


def test_a_violation_is_told_as_a_broken_promise_and_many_of_one_rule_as_a_few_and_a_number() -> None:
    outcome = Outcome(seed=1, folder="/somewhere")
    outcome.violations = [Violation("inbound: nothing lost", f"message {number} has no row") for number in range(8)]
    outcome.violations.append(Violation("inbound: order", "s1 took 2 after 3"))
    assert told(outcome).splitlines() == [
        "0 acknowledged, 0 faults, 0 repetitions, 9 violations",
        *(f"  BROKEN inbound, nothing lost: message {number} has no row" for number in range(5)),
        "  BROKEN inbound, nothing lost: 3 more",
        "  BROKEN inbound, order: s1 took 2 after 3",
        "  everything is in /somewhere",
    ]
    assert "BROKEN inbound, nothing lost  " in table(summary(Plan(seed=1), [outcome], "python -m torture"))


def test_what_the_page_counts_as_lost_inverted_or_stale_are_rules_of_the_checker() -> None:
    assert {rule for rules in BROKEN.values() for rule in rules} <= set(RULES)
