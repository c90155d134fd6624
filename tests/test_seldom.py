"""Looks that cost more the more there is to see take a small share of the time."""

import asyncio
from collections.abc import Iterator

import pytest

from pillarbox.seldom import Seldom


class Steps:
    """A look that counts how often it is taken, by a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, takes: float) -> None:
        self.now, self.takes, self.taken = 0.0, takes, 0
        monkeypatch.setattr("pillarbox.seldom.time.monotonic", lambda: self.now)

    async def __call__(self) -> int:
        self.now += self.takes
        self.taken += 1
        return self.taken


async def test_a_cheap_look_is_taken_whenever_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Seldom(Steps(monkeypatch, takes=0.001))
    assert [await look() for _ in range(3)] == [1, 2, 3]


async def test_a_dear_look_is_shown_again_for_forty_times_as_long_as_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, takes=0.1)
    look = Seldom(steps)
    assert [await look(), await look()] == [1, 1]
    steps.now += 3.9
    assert await look() == 1
    steps.now += 0.2
    assert await look() == 2


async def test_all_that_ask_at_once_share_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch, takes=0.1)
    look = Seldom(steps)
    assert await asyncio.gather(*(look() for _ in range(5))) == [1] * 5


async def test_a_look_that_failed_is_taken_again() -> None:
    answers: Iterator[Exception | int] = iter([ValueError("not now"), 7])

    async def look() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    patient = Seldom(look)
    with pytest.raises(ValueError, match="not now"):
        await patient()
    assert await patient() == 7
