import asyncio
from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.engine import Batch
from pillarbox.errors import DatabaseBusy, Unavailable
from tests.simulation.loop import VirtualLoop, run_virtually


class Store:
    """Doubles numbers, one second for each set; a set with a bad number fails as a whole."""

    def __init__(self, *, bad: frozenset[int] = frozenset(), answers_errors: bool = False) -> None:
        self.sets: list[list[int]] = []
        self.bad = bad
        self.answers_errors = answers_errors
        self.away = False
        self.under_way = 0
        self.most_under_way = 0

    async def double(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.sets.append(list(items))
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            await asyncio.sleep(1)
        finally:
            self.under_way -= 1
        if self.away:
            raise DatabaseBusy("busy")
        if self.answers_errors:
            return [ValueError(item) if item in self.bad else item * 2 for item in items]
        if self.bad.intersection(items):
            raise ValueError("a bad item")
        return [item * 2 for item in items]


async def together(*calls: Coroutine[Any, Any, int]) -> list[int | BaseException]:
    return await asyncio.gather(*calls, return_exceptions=True)


def test_an_idle_caller_waits_for_nobody() -> None:
    async def main() -> None:
        batch = Batch(Store().double, most=10, at_once=1)
        assert await batch.add(4) == 8
        assert asyncio.get_running_loop().time() == 1

    run_virtually(main())


def test_while_one_set_runs_the_next_one_gathers() -> None:
    store = Store()

    async def main() -> None:
        batch = Batch(store.double, most=3, at_once=1)
        first = asyncio.create_task(batch.add(0))
        await asyncio.sleep(0.5)
        assert await together(*(batch.add(item) for item in range(1, 6))) == [2, 4, 6, 8, 10]
        assert await first == 0

    run_virtually(main())
    assert store.sets == [[0], [1, 2, 3], [4, 5]]


def test_a_caller_that_comes_back_at_once_is_served_again() -> None:
    async def main() -> None:
        batch = Batch(Store().double, most=3, at_once=1)
        for item in range(3):
            assert await batch.add(item) == item * 2

    run_virtually(main())


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0.0, 0.5, 1.0, 1.5])), max_size=30),
    st.frozensets(st.integers(0, 40), max_size=4),
    st.integers(1, 5),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 1000),
)
def test_everyone_gets_their_own_answer_and_only_the_bad_fail(
    calls: list[tuple[int, float]], bad: frozenset[int], most: int, at_once: int, answers: bool, seed: int
) -> None:
    store = Store(bad=bad, answers_errors=answers)

    async def call(batch: Batch[int, int], item: int, after: float) -> int:
        await asyncio.sleep(after)
        return await batch.add(item)

    async def main() -> None:
        batch = Batch(store.double, most=most, at_once=at_once)
        results = await together(*(call(batch, item, after) for item, after in calls))
        for (item, _), result in zip(calls, results, strict=True):
            assert isinstance(result, ValueError) if item in bad else result == item * 2

    run_virtually(main(), loop=VirtualLoop(Random(seed), spread=5))
    assert store.most_under_way <= at_once
    assert all(len(items) <= most for items in store.sets)


def test_one_bad_item_fails_alone() -> None:
    store = Store(bad=frozenset({2}))

    async def main() -> list[int | BaseException]:
        batch = Batch(store.double, most=10, at_once=1)
        return await together(*(batch.add(item) for item in (1, 2, 3)))

    one, two, three = run_virtually(main())
    assert (one, three) == (2, 6)
    assert isinstance(two, ValueError)
    assert store.sets == [[1, 2, 3], [1], [2], [3]]


def test_an_unavailable_store_is_not_asked_item_by_item() -> None:
    store = Store()
    store.away = True

    async def main() -> list[int | BaseException]:
        batch = Batch(store.double, most=10, at_once=1)
        return await together(*(batch.add(item) for item in (1, 2, 3)))

    assert all(isinstance(result, Unavailable) for result in run_virtually(main()))
    assert store.sets == [[1, 2, 3]]


def test_a_caller_that_went_away_disturbs_nobody_and_is_left_out_if_not_begun() -> None:
    store = Store()

    async def main() -> None:
        batch = Batch(store.double, most=2, at_once=1)
        begun = [asyncio.create_task(batch.add(item)) for item in (1, 2)]
        await asyncio.sleep(0.5)
        waiting = [asyncio.create_task(batch.add(item)) for item in (3, 4)]
        await asyncio.sleep(0.1)
        begun[0].cancel()
        waiting[0].cancel()
        assert await begun[1] == 4
        assert await waiting[1] == 8
        assert await batch.add(5) == 10

    run_virtually(main())
    assert store.sets == [[1, 2], [4], [5]]


def test_a_store_that_is_cancelled_leaves_nobody_waiting() -> None:
    async def cancelled(items: Sequence[int]) -> Sequence[int]:
        raise asyncio.CancelledError

    async def main() -> None:
        batch = Batch(cancelled, most=2, at_once=1)
        for _ in range(2):
            with pytest.raises(asyncio.CancelledError):
                await batch.add(1)

    run_virtually(main())
