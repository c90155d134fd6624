from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pillarbox.engine import Room

NAMES = st.sampled_from("abcde")
TAKEN = st.dictionaries(NAMES, st.integers(0, 8))


@given(st.integers(-5, 40), st.integers(1, 10), TAKEN, st.lists(NAMES, max_size=40))
def test_neither_the_slots_nor_a_share_is_exceeded_and_the_first_come_first(
    slots: int, cap: int, taken: dict[str, int], candidates: list[str]
) -> None:
    room = Room(slots, cap, taken)
    fitting, left = room.admit(candidates)
    admitted = Counter(candidates[position] for position in fitting)
    assert fitting == sorted(set(fitting))
    assert len(fitting) <= max(0, slots)
    assert left.slots == slots - len(fitting)
    for name in admitted:
        assert taken.get(name, 0) + admitted[name] <= cap
        assert left.taken[name] == taken.get(name, 0) + admitted[name]
    for position in set(range(len(candidates))) - set(fitting):
        before = [candidates[earlier] for earlier in fitting if earlier < position]
        share = taken.get(candidates[position], 0) + before.count(candidates[position])
        assert len(before) >= slots or share >= cap


@given(st.integers(1, 100), TAKEN)
def test_a_destination_gets_three_quarters_and_at_least_one(concurrency: int, taken: dict[str, int]) -> None:
    room = Room.of(concurrency, taken)
    assert room.cap == max(1, concurrency * 3 // 4)
    assert room.slots == concurrency - sum(taken.values())
    assert room.full == sorted(name for name in taken if taken[name] >= room.cap)


def test_a_node_that_stops_has_no_room() -> None:
    assert Room.of(0, {"a": 2}).admit(["a", "b"])[0] == []
