"""The claim protocol, in every order in which two workers, a crash and a freeze can happen."""

import pytest

from tests.model.claim_model import ROWS, Protocol, State, explore, without


def test_no_order_of_events_loses_a_row_or_disorders_them_or_repeats_one_without_a_fault() -> None:
    result = explore()
    assert result.finding is None
    assert result.states > 500
    assert result.endings > 10


def test_without_faults_each_row_is_delivered_once() -> None:
    result = explore(start=State(crashes=0, freezes=0))
    assert result.finding is None
    assert result.most_deliveries == ROWS


def test_more_faults_break_nothing() -> None:
    assert explore(start=State(crashes=2, freezes=2)).finding is None


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (without(fenced=False), "out of order"),
        (without(one_holder=False), "more often than faults explain"),
        (without(rescues=False), "lost"),
        (without(in_order=False), "out of order"),
    ],
    ids=["no fence", "two holders", "no rescue", "no order"],
)
def test_every_part_of_the_protocol_is_needed(protocol: Protocol, problem: str) -> None:
    finding = explore(protocol).finding
    assert finding is not None
    assert finding.way
    assert problem in finding.problem
