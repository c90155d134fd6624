"""A checker that finds nothing proves nothing: each rule is shown a round that breaks it."""

import pytest

from tests.torture.ledgers import (
    Spoil,
    a_good_round,
    both,
    call,
    hook,
    inbound,
    killed,
    noted,
    with_entry,
    with_faults,
    with_row,
    without,
    without_row,
)
from torture.evidence import Event, Message
from torture.rules import RULES, check, duplicates

SPOILED: list[tuple[str, str, Spoil]] = [
    (
        "an answer of 500",
        "answers",
        with_entry("ledger", **noted("answers", "unexpected", 1, what="x", status=500, answer="")),
    ),
    ("a node that ends badly", "stopping", with_entry("faults", fault="sigterm", node="n0", at=9, until=9.5, exit=1)),
    ("a message without a row", "inbound: nothing lost", without_row("messages", 1)),
    ("a message that never came", "inbound: nothing lost", without(2, "inbound")),
    ("a message that still waits", "inbound: nothing lost", with_row("messages", 1, status="failed")),
    ("an expired message of an open session", "inbound: nothing lost", with_row("messages", 1, status="expired")),
    (
        "a source stored twice",
        "inbound: stored once",
        lambda round_: round_.messages.append(Message(9, "s1", 3, "delivered", 1, 9, "s1:1")),
    ),
    ("an id that is another's", "inbound: stored once", with_row("messages", 1, source="s1:7")),
    (
        "a message that passes another",
        "inbound: order",
        lambda round_: round_.arrivals.insert(0, inbound(2, "s1", 2, 0.5)),
    ),
    ("a message that was left out", "inbound: order", without(1, "inbound")),
    (
        "a later call with a lower number",
        "inbound: order",
        with_entry("ledger", **noted("inbound", "acknowledged", 2, session="s1", n=2, id=1, seq=1)),
    ),
    ("a repetition without a fault", "inbound: repetitions", with_faults()),
    ("a repetition after another node's death", "inbound: repetitions", with_faults(killed(1.7, "n1"))),
    ("a repetition before the fault", "inbound: repetitions", with_faults(killed(2.7))),
    ("a repetition after a stop", "inbound: repetitions", with_faults(killed(1.7) | {"fault": "sigterm", "exit": 0})),
    ("two arrivals of one attempt", "inbound: attempts", with_entry("arrivals", **inbound(2, "s1", 2, 9, token=3))),
    ("an attempt that is not counted", "inbound: attempts", with_row("messages", 0, attempts=1)),
    ("a token used for two messages", "inbound: fences", with_entry("arrivals", **inbound(2, "s1", 2, 9, token=2))),
    ("a mark under another's token", "inbound: fences", with_row("messages", 0, token=9)),
    ("a claim after the close", "inbound: close", with_entry("arrivals", **inbound(4, "c0", 2, 2.5, token=2))),
    ("a closed session that is open", "inbound: close", with_row("strands", 1, state="open")),
    ("an open message of a closed session", "inbound: close", with_row("messages", 3, status="pending")),
    ("a count that is wrong", "inbound: nothing left", with_row("strands", 0, open=1)),
    ("an event without a row", "hooks: nothing lost", without_row("events", 2)),
    ("an event that never came", "hooks: nothing lost", without(3, "hooks")),
    ("an event that was given up", "hooks: nothing lost", with_row("events", 2, status="dead")),
    ("a received event that nobody has", "hooks: receivers", without_row("events", 4)),
    ("received events in another order", "hooks: receivers", with_row("events", 3, seq=3)),
    (
        "a received event twice",
        "hooks: receivers",
        lambda round_: round_.events.append(round_.events[4]._replace(id=9, seq=3)),
    ),
    ("an event that passes another", "hooks: order", lambda round_: round_.arrivals.insert(0, hook(3, 0.5))),
    ("a critical event superseded", "hooks: bursts", with_row("events", 2, status="superseded", superseded_by=2)),
    ("an event superseded by another kind", "hooks: bursts", with_row("events", 0, superseded_by=3)),
    (
        "an event superseded past a critical one",
        "hooks: bursts",
        both(
            lambda round_: round_.events.append(Event(9, "h0", 4, "tool_use", "delivered", 1, None, "{}")),
            with_row("events", 0, superseded_by=9),
        ),
    ),
    (
        "an event again without a fault",
        "hooks: repetitions",
        both(with_faults(), with_entry("arrivals", **hook(3, 9, attempt=2))),
    ),
    ("an event's attempt twice", "hooks: attempts", with_entry("arrivals", **hook(3, 1.65))),
    ("an event's attempt that is not counted", "hooks: attempts", with_row("events", 2, attempts=0)),
    ("an outbound message without a row", "outbound: nothing lost", without_row("sent", 0)),
    ("an outbound message that never came", "outbound: nothing lost", without("m5", "outbound")),
    ("an outbound message that waits", "outbound: nothing lost", with_row("sent", 4, status="retrying")),
    ("one that was given up too early", "outbound: nothing lost", with_row("sent", 4, status="failed")),
    ("one that nobody canceled", "outbound: nothing lost", with_row("sent", 4, status="canceled")),
    ("a key that was forgotten", "outbound: stored once", lambda round_: round_.idempotent.remove("m1")),
    (
        "a key with two answers",
        "outbound: stored once",
        with_entry("ledger", **noted("outbound", "acknowledged", 2, key="k1", id="m3", place="m/k1")),
    ),
    ("a key with two messages", "outbound: stored once", with_row("sent", 4, address="http://t/out/m/k1")),
    ("a message without its order", "outbound: own transactions", lambda round_: round_.orders.clear()),
    ("an order without its message", "outbound: own transactions", lambda round_: round_.orders.append("m9")),
    ("a message only in the queue", "outbound: queue and history", lambda round_: round_.queue.append("m1")),
    ("a message only in the history", "outbound: queue and history", with_row("sent", 0, status="pending")),
    ("an attempt that is missing", "outbound: attempts", without_row("attempts", 0)),
    ("more calls than attempts", "outbound: attempts", with_entry("arrivals", **call("m5", "c/x", 1.6))),
    ("fewer calls than answers", "outbound: attempts", without("m3", "outbound")),
    ("accepted and not delivered", "outbound: attempts", with_row("sent", 4, status="failed", attempts=1)),
    ("a call again without a fault", "outbound: repetitions", with_faults()),
    ("a call again though all was known", "outbound: repetitions", with_row("attempts", 0, outcome="accepted")),
    ("a call after the cancel", "outbound: cancel and opt-out", with_entry("arrivals", **call("m2", "m/k2", 9))),
    ("a canceled message that went", "outbound: cancel and opt-out", with_row("sent", 1, status="delivered")),
    ("a call after the opt-out", "outbound: cancel and opt-out", with_entry("arrivals", **call("m4", "o/k3", 9))),
    (
        "a key marked twice",
        "inbox: processed once",
        with_entry("ledger", **noted("inbox", "processed", 4.4, key="i1", lease="l1")),
    ),
    ("a mark that is gone", "inbox: processed once", with_row("keys", 0, status="free")),
    ("a mark under a lost lease", "inbox: processed once", with_row("keys", 0, lease="l1")),
    (
        "a key begun after its mark",
        "inbox: memory",
        with_entry("ledger", **noted("inbox", "begun", 9, key="i1", lease="l3", asked=8)),
    ),
    (
        "a key begun by two",
        "inbox: leases",
        with_entry("ledger", **noted("inbox", "begun", 2, key="i1", lease="l3", asked=1.9)),
    ),
]


def test_a_round_in_which_all_was_well_breaks_no_rule() -> None:
    assert check(a_good_round()) == []


@pytest.mark.parametrize(("rule", "spoil"), [each[1:] for each in SPOILED], ids=[each[0] for each in SPOILED])
def test_what_breaks_a_promise_is_reported_by_its_rule(rule: str, spoil: Spoil) -> None:
    round_ = a_good_round()
    spoil(round_)
    assert rule in {violation.rule for violation in check(round_)}


def test_every_rule_has_been_shown_what_breaks_it() -> None:
    assert {rule for _, rule, _ in SPOILED} == set(RULES)


def test_arrivals_after_the_first_are_counted_for_each_pipe() -> None:
    assert duplicates(a_good_round()) == {"inbound": 1, "hooks": 0, "outbound": 1}


def test_what_a_worker_that_stood_still_brings_late_is_explained_by_that() -> None:
    round_ = a_good_round()
    round_.arrivals[2] = inbound(1, "s1", 1, 1.4, attempt=2, token=2)
    round_.arrivals.sort(key=lambda entry: float(entry["at"]))
    round_.faults = [killed(1.45, "n1"), {"fault": "paused", "node": "n0", "at": 1.0, "until": 1.5}]
    assert "inbound: repetitions" not in {violation.rule for violation in check(round_)}
    round_.faults[1]["node"] = "n1"
    assert "inbound: repetitions" in {violation.rule for violation in check(round_)}


def test_a_node_whose_database_was_away_may_end_badly() -> None:
    round_ = a_good_round()
    round_.faults += [
        {"fault": "sigterm", "node": "n0", "at": 9.0, "until": 9.5, "exit": 1},
        {"fault": "postgres away", "node": None, "at": 8.0, "until": 9.2},
    ]
    assert check(round_) == []
