"""A checker that finds nothing proves nothing: each rule is shown a round that breaks it."""

import pytest

from tests.torture.ledgers import (
    Spoil,
    a_good_round,
    call,
    given_up_after_a_yes,
    hook,
    inbound,
    killed,
    said_of,
)
from tests.torture.spoiled import SPOILED
from torture.blame import Blame, blamed, repeated
from torture.evidence import Entry, Evidence
from torture.outcome import under_old_tokens
from torture.rules import RULES, check, duplicates


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


def test_what_a_stopped_node_sends_when_it_goes_on_may_have_been_claimed_by_another() -> None:
    stopped = {"fault": "paused", "node": "n1", "at": 5.0, "until": 19.0}
    blame = Blame(Evidence(nodes=3, lease=10.0, inbox_lease=3.0, one_writer=False, faults=[stopped]), "outbound")

    def explained(node: str, at: float) -> bool:
        name = f"{node} {at}"
        first, again = {"id": name, "node": node, "at": at}, {"id": name, "node": "n2", "at": at + 0.1}
        return blame.lay(first, again, name) is not None

    assert explained("n1", 19.05)
    assert not explained("n1", 20.5)
    assert not explained("n0", 19.05)
    assert not explained("n1", 4.0)


def arrived(*arrivals: tuple[str, float], faults: list[Entry]) -> list[str | None]:
    """Calls of one message by these nodes at these times, all accepted; what explains each one after the first."""
    calls = [call("m1", "c/x-0", at) | {"node": node} for node, at in arrivals]
    evidence = Evidence(nodes=3, lease=10.0, inbox_lease=3.0, one_writer=False, faults=faults, arrivals=calls)
    return [fault["fault"] if fault else None for _, _, fault in repeated(evidence, "outbound")]


def test_the_last_call_of_a_killed_process_may_be_written_down_after_that_of_its_successor() -> None:
    death = killed(30.0, "n1") | {"until": 30.8}
    assert arrived(("n2", 30.1), ("n1", 30.2), faults=[death]) == ["killed"]
    assert arrived(("n2", 30.1), ("n1", 30.9), faults=[death]) == [None], "it lives again"
    assert arrived(("n2", 29.8), ("n1", 29.9), faults=[death]) == [None], "it still lived"
    assert arrived(("n2", 30.1), ("n1", 32.0), faults=[death | {"until": 33.0}]) == [None], "no call takes so long"


def test_who_held_a_message_while_a_stopped_node_sent_it_too_may_die_of_it_later() -> None:
    stopped: Entry = {"fault": "paused", "node": "n3", "at": 51.0, "until": 60.2}
    calls = (("n1", 59.7), ("n3", 60.3), ("n3", 64.6))
    assert arrived(*calls, faults=[stopped, killed(62.6, "n1")]) == ["paused", "killed"]
    assert arrived(*calls, faults=[stopped, killed(62.6, "n2")]) == ["paused", None]
    assert arrived(*calls, ("n2", 65.0), faults=[stopped, killed(62.6, "n1")]) == ["paused", "killed", None]


def test_a_fault_explains_no_more_than_was_in_flight_when_it_struck() -> None:
    round_ = a_good_round()
    round_.faults = [{"fault": "postgres restarted", "node": None, "at": 1.4, "until": 1.6}]
    assert blamed(round_) == {"postgres restarted": 2}
    assert check(round_) == []
    again = [
        call("m5", "c/x-0", 10 + n) for n in range(100)
    ]  # Only the first is of a claim that the restart can have cost.
    round_.arrivals += again
    explained = [fault for _, entry, fault in repeated(round_, "outbound") if entry in again and fault]
    assert len(explained) == 1


def test_a_call_that_a_stopped_node_makes_when_it_goes_on_is_explained_by_that() -> None:
    round_ = a_good_round()
    round_.arrivals.append(call("m4", "o/k3", 3.5))
    round_.faults.append({"fault": "paused", "node": "n0", "at": 2.5, "until": 3.4})
    assert "outbound: cancel and opt-out" not in {violation.rule for violation in check(round_)}


@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "paused", "node": "n0", "at": 1.9, "until": 3.9},
        {"fault": "black hole", "node": "n0", "at": 1.9, "until": 3.4},
        {"fault": "starved", "node": None, "at": 1.9, "until": 3.4},
    ],
    ids=lambda fault: fault["fault"],
)
def test_a_delivery_after_a_close_is_explained_by_what_kept_its_node_from_hearing(fault: Entry) -> None:
    round_ = a_good_round()
    round_.arrivals[1].update(at=4.0)
    assert "inbound: close" in {violation.rule for violation in check(round_)}
    round_.faults.append(fault)
    assert "inbound: close" not in {violation.rule for violation in check(round_)}


def test_a_delivery_just_after_a_close_may_have_been_on_its_way() -> None:
    round_ = a_good_round()
    round_.arrivals[1].update(at=2.9)
    assert "inbound: close" not in {violation.rule for violation in check(round_)}


def test_what_bears_an_old_token_is_counted() -> None:
    round_ = a_good_round()
    round_.arrivals += [inbound(1, "s1", 1, 2.7, token=1), inbound(1, "s1", 1, 2.8, token=1, answer="stale")]
    assert under_old_tokens(round_) == {"accepted": 1, "refused by the target": 1}


def test_a_call_that_the_target_was_slow_to_read_is_explained_by_that() -> None:
    round_ = a_good_round()
    round_.arrivals.append(call("m4", "o/k3", 3.5))
    round_.stalls.append({"at": 3.0, "until": 3.4})
    assert "outbound: cancel and opt-out" not in {violation.rule for violation in check(round_)}


def test_a_message_given_up_after_a_yes_is_explained_by_a_fault_for_each_yes() -> None:
    round_ = a_good_round()
    given_up_after_a_yes(round_)
    round_.faults.append(killed(2.6, "n1"))
    assert "reported states" in {violation.rule for violation in check(round_)}
    round_.faults.append(killed(2.6))
    assert "reported states" not in {violation.rule for violation in check(round_)}


def test_an_event_of_a_killed_receiver_may_be_there_or_not() -> None:
    round_ = a_good_round()
    assert check(round_) == []
    round_.events.append(round_.events[4]._replace(id=6, seq=3, payload='{"prompt": "a0:2"}'))
    round_.arrivals.append(hook(5, 1.9) | {"id": 6, "said": said_of(round_.events[5])})
    assert check(round_) == []


def test_a_stop_explains_a_repetition_only_while_the_database_is_away() -> None:
    round_ = a_good_round()
    round_.lease = 10.0
    round_.faults = [{"fault": "sigterm", "node": "n0", "at": 1.45, "until": 2.2, "exit": 0}]
    assert "inbound: repetitions" in {violation.rule for violation in check(round_)}
    round_.faults.append({"fault": "cut", "node": "n0", "at": 1.5, "until": 1.5})
    assert blamed(round_) == {"sigterm": 2}
    assert check(round_) == []


def test_a_node_whose_database_was_away_may_end_badly() -> None:
    round_ = a_good_round()
    round_.faults += [
        {"fault": "sigterm", "node": "n0", "at": 9.0, "until": 9.5, "exit": 1},
        {"fault": "postgres away", "node": None, "at": 8.0, "until": 9.2},
    ]
    assert check(round_) == []
