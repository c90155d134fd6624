"""Strands that nobody here answers for any more."""

import pytest

from pillarbox.engine import Strand, lost
from pillarbox.engine.lost import LostStrands
from tests.engine.scripted import Row


def held(key: str, token: int) -> Strand[Row]:
    return Strand(key, "there", token, (Row(1),))


def test_what_was_lost_is_known_while_it_is_held_under_the_same_token() -> None:
    strands: LostStrands[Row] = LostStrands()
    strands.note(held("a", 1))
    strands.note(held("b", 1))
    assert strands.among([held("a", 1), held("b", 2), held("c", 1)]) == {("a", 1)}


def test_what_is_no_longer_held_is_forgotten() -> None:
    strands: LostStrands[Row] = LostStrands()
    strands.note(held("a", 1))
    assert strands.among([]) == set()
    assert strands.among([held("a", 1)]) == set()


def test_only_so_many_are_remembered_and_the_first_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost, "_MOST", 3)
    strands: LostStrands[Row] = LostStrands()
    noted = [held(str(number), number) for number in range(5)]
    for strand in noted:
        strands.note(strand)
    assert strands.among(noted) == {("2", 2), ("3", 3), ("4", 4)}
