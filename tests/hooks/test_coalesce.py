"""Which events of a burst are delivered, held against a model that looks at one event at a time."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pillarbox.hooks.coalesce import CRITICAL, Mark, begin, coalesce

BURSTY = ("tool_use", "tool_done", "compaction", "something of tomorrow")
TYPES = (*sorted(CRITICAL), *BURSTY)


@st.composite
def outboxes(draw: st.DrawFn) -> list[Mark]:
    """Open events of one session: `seq` grows, with gaps; ids need not, for a dead event that goes again keeps its own."""
    bursty_mostly = st.one_of(st.sampled_from(BURSTY), st.sampled_from(BURSTY), st.sampled_from(TYPES))
    types = draw(st.lists(bursty_mostly, max_size=40))
    seqs = sorted(draw(st.sets(st.integers(1, 10_000), min_size=len(types), max_size=len(types))))
    ids = draw(st.permutations(range(1, len(types) + 1)))
    return [Mark(*fields, size=draw(st.integers(0, 100))) for fields in zip(ids, seqs, types, strict=True)]


def critical_before(marks: list[Mark], mark: Mark) -> int:
    """The number of the segment that an event stands in."""
    return sum(other.event_type in CRITICAL and other.seq < mark.seq for other in marks)


def successor(marks: list[Mark], mark: Mark) -> Mark | None:
    """The last event of the same bursty type before the next critical one, if that is another."""
    if mark.event_type in CRITICAL:
        return None
    alike = [
        other
        for other in marks
        if other.event_type == mark.event_type and critical_before(marks, other) == critical_before(marks, mark)
    ]
    return alike[-1] if alike[-1] != mark else None


def test_the_critical_types_are_the_documented_ones() -> None:
    assert {
        "session_start",
        "user_prompt_submit",
        "agent_stop",
        "session_end",
        "notification",
        "error",
    } == CRITICAL


@given(outboxes())
def test_a_run_is_what_the_model_says(marks: list[Mark]) -> None:
    run = coalesce(marks)
    assert list(run.kept) == [mark for mark in marks if successor(marks, mark) is None]
    assert dict(run.superseded) == {mark: last for mark in marks if (last := successor(marks, mark)) is not None}


@given(outboxes())
def test_every_event_is_either_kept_or_superseded_once(marks: list[Mark]) -> None:
    run = coalesce(marks)
    ended = [*run.kept, *(mark for mark, _ in run.superseded)]
    assert sorted(ended, key=lambda mark: mark.id) == sorted(marks, key=lambda mark: mark.id)


@given(outboxes())
def test_critical_events_are_all_kept_in_order(marks: list[Mark]) -> None:
    run = coalesce(marks)
    kept = [mark for mark in run.kept if mark.event_type in CRITICAL]
    assert kept == [mark for mark in marks if mark.event_type in CRITICAL]
    assert [mark.seq for mark in run.kept] == sorted(mark.seq for mark in run.kept)


@given(outboxes())
def test_whatever_is_superseded_names_a_later_kept_event_of_its_type_and_segment(marks: list[Mark]) -> None:
    run = coalesce(marks)
    for mark, by in run.superseded:
        assert by in run.kept
        assert (by.event_type, critical_before(marks, by)) == (mark.event_type, critical_before(marks, mark))
        assert by.seq > mark.seq


@given(outboxes())
def test_what_is_kept_is_kept_again(marks: list[Mark]) -> None:
    once = coalesce(marks)
    again = coalesce(once.kept)
    assert (again.kept, again.superseded) == (once.kept, ())


@given(outboxes())
def test_a_burst_may_go_on_exactly_when_the_last_event_is_bursty(marks: list[Mark]) -> None:
    assert coalesce(marks).open_ended == bool(marks and marks[-1].event_type not in CRITICAL)


@given(outboxes(), st.integers(0, 40))
def test_what_ends_with_a_critical_event_does_not_depend_on_what_comes_later(marks: list[Mark], cut: int) -> None:
    """So that a claim may stop looking there."""
    front = marks[:cut]
    run = coalesce(front)
    if not run.open_ended:
        assert coalesce(marks).kept[: len(run.kept)] == run.kept


@given(outboxes(), st.integers(1, 40), st.integers(0, 500))
def test_what_is_in_memory_at_once_is_bounded_and_never_nothing(marks: list[Mark], limit: int, most: int) -> None:
    taken = begin(marks, limit=limit, most_bytes=most)
    assert taken == tuple(marks[: len(taken)])
    assert len(taken) <= limit
    assert len(taken) <= 1 or sum(mark.size for mark in taken) <= most
    assert bool(taken) == bool(marks)
    left = marks[len(taken) :]
    if left and len(taken) < limit:
        assert sum(mark.size for mark in taken) + left[0].size > most


@pytest.mark.parametrize(("size", "expected"), [(10, 3), (11, 2), (30, 1), (1000, 1)])
def test_bytes_bound_a_run_exactly(size: int, expected: int) -> None:
    marks = [Mark(number, number, "agent_stop", size) for number in range(1, 5)]
    assert len(begin(marks, limit=32, most_bytes=30)) == expected
