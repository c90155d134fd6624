"""The claim protocol, in every order in which two workers, a crash and a freeze can happen."""

import pytest

from tests.model.__main__ import main
from tests.model.claim_model import MORE_FAULTS, ROWS, RULES, State, explore


def test_no_order_of_events_loses_a_row_or_disorders_them_or_repeats_one_without_a_fault() -> None:
    result = explore()
    assert result.finding is None
    # docs/reliability.md names how many there are.
    assert result.states == 1_453
    assert result.endings > 10


def test_without_faults_each_row_is_delivered_once() -> None:
    result = explore(start=State(crashes=0, freezes=0))
    assert result.finding is None
    assert result.most_deliveries == ROWS


def test_more_faults_break_nothing() -> None:
    result = explore(start=MORE_FAULTS)
    assert result.finding is None
    assert result.states == 26_127


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("the fence", "out of order"),
        ("one holder at a time", "more often than faults explain"),
        ("the rescue", "lost"),
        ("the order within a strand", "out of order"),
    ],
)
def test_every_part_of_the_protocol_is_needed(rule: str, problem: str) -> None:
    finding = explore(RULES[rule]).finding
    assert finding is not None
    assert finding.way
    assert problem in finding.problem


def test_the_way_to_the_harm_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    shown = capsys.readouterr().out
    assert "1,453 states" in shown
    assert [line for line in shown.splitlines() if line.startswith("without ")] == [
        f"without {rule}: {explore(protocol).finding.problem}"  # type: ignore[union-attr]
        for rule, protocol in RULES.items()
    ]
    assert "  1. worker 0 claims under token 1" in shown
