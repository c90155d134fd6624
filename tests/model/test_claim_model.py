"""The claim protocol, in every order in which two workers, a crash and a freeze can happen."""

import pytest

from tests.model.claim_model import ROWS, Protocol, State, explore, without


def test_no_order_of_events_loses_doubles_or_disorders_a_row() -> None:
    result = explore()
    assert result.finding is None
    assert result.states > 500
    assert result.endings > 10


def test_without_faults_each_row_is_delivered_once() -> None:
    result = explore(start=State(crashes=0, freezes=0))
    assert result.finding is None
    assert result.most_deliveries == ROWS


def test_each_fault_costs_at_most_one_further_delivery_of_each_row() -> None:
    assert explore(start=State(freezes=0)).most_deliveries <= ROWS + 1
    assert explore(start=State(crashes=0)).most_deliveries <= ROWS + 1


def test_more_faults_break_nothing() -> None:
    assert explore(start=State(crashes=2, freezes=2)).finding is None


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        (without(fenced=False), "out of order"),
        (without(one_holder=False), "out of order"),
        (without(rescues=False), "lost"),
        (without(in_order=False), "out of order"),
    ],
    ids=["no fence", "two holders", "no rescue", "no order"],
)
def test_every_part_of_the_protocol_is_needed(protocol: Protocol, problem: str) -> None:
    finding = explore(protocol).finding
    assert finding is not None
    assert finding.way
    print(finding)
    assert problem in finding.problem
