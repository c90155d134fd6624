import asyncio
from itertools import pairwise
from random import Random

import pytest

from pillarbox.engine import Chore, Janitor
from tests.simulation.loop import run_virtually


async def tidy_for(seconds: float, *chores: Chore) -> None:
    janitor = asyncio.create_task(Janitor(chores, random=Random(1)).run())
    await asyncio.sleep(seconds)
    assert not janitor.done()
    janitor.cancel()
    await asyncio.wait([janitor])


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_chore_is_done_about_every_so_many_seconds() -> None:
    done: list[float] = [0.0]

    async def work() -> bool:
        done.append(now())
        return False

    run_virtually(tidy_for(1000, Chore("sweep", 10, work)))
    assert 80 <= len(done) <= 126
    gaps = [later - earlier for earlier, later in pairwise(done)]
    assert all(8 <= gap <= 12 for gap in gaps)
    assert len(set(gaps)) > 1


def test_a_chore_with_more_to_do_goes_on_at_once() -> None:
    left, done = 3, []

    async def work() -> bool:
        nonlocal left
        left -= 1
        done.append(now())
        return left > 0

    run_virtually(tidy_for(13, Chore("sweep", 10, work)))
    assert len(done) == 3
    assert len(set(done)) == 1


def test_a_chore_that_fails_is_tried_again_and_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    tries, done = [], []

    async def fail() -> bool:
        tries.append(now())
        raise RuntimeError("no")

    async def work() -> bool:
        done.append(now())
        return False

    run_virtually(tidy_for(100, Chore("fail", 10, fail), Chore("work", 10, work)))
    assert len(tries) >= 8
    assert len(done) >= 8
    assert set(caplog.messages) == {"a chore failed and will be tried again chore=fail error=RuntimeError: no"}
