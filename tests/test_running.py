"""How a program's own box runs, is stopped, cancelled and left."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from pillarbox import Pillarbox
from pillarbox.errors import PillarboxError
from pillarbox.inbound import InboundMessage
from pillarbox.running import Running
from tests.threads import called

WAITING = 5


@dataclass
class Stage:
    """A box with messages whose target waits until it is let go."""

    box: Pillarbox
    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    all_begun: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def states(self) -> Counter[str]:
        return Counter([row.status for row in await self.box.inbound.list()])


@asynccontextmanager
async def staged(url: str) -> AsyncIterator[Stage]:
    async with Pillarbox.open(url) as box:
        stage = Stage(box)

        @box.inbound.target("slow")
        async def slow(message: InboundMessage) -> None:
            stage.begun.append(message.content)
            if len(stage.begun) == WAITING:
                stage.all_begun.set()
            await stage.let_go.wait()
            stage.ended.append(message.content)

        for number in range(WAITING):
            session = await box.sessions.open(target={"kind": "python", "name": "slow"})
            await box.inbound.enqueue(session_id=session.session_id, origin="test", content=str(number))
        yield stage


async def states(url: str) -> Counter[str]:
    async with Pillarbox.open(url) as box:
        return Counter([row.status for row in await box.inbound.list()])


async def test_a_run_that_is_cancelled_again_and_again_gives_back_all_it_held(database_url: str) -> None:
    async with staged(database_url) as stage:
        running = asyncio.create_task(stage.box.run())
        await stage.all_begun.wait()
        while not running.done():
            running.cancel()
            await asyncio.sleep(0)
        assert running.cancelled()
        assert (await stage.states())["processing"] == 0


async def test_leaving_the_box_by_an_error_ends_its_run_first_and_gives_back_all_it_held(database_url: str) -> None:
    runs: list[asyncio.Task[None]] = []
    others = renewing()

    async def fail() -> None:
        async with staged(database_url) as stage:
            runs.append(asyncio.create_task(stage.box.run()))
            await stage.all_begun.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await runs[0]
    assert (await states(database_url))["processing"] == 0
    assert renewing() <= others


async def test_a_run_that_is_cancelled_as_its_box_is_left_in_a_hurry_is_cancelled() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    running = Running(work, begin=lambda: None, stop=lambda: None)
    for both in (False, True):
        run = asyncio.create_task(running.run())
        await asyncio.sleep(0)
        leaving = asyncio.create_task(running.leave(in_a_hurry=True))
        await leaving
        if both:
            run.cancel()
        await asyncio.wait([run])
        assert run.cancelled() is both


async def test_leaving_the_box_lets_deliveries_under_way_end(database_url: str) -> None:
    async with staged(database_url) as stage:
        running = asyncio.create_task(stage.box.run())
        await stage.all_begun.wait()
        asyncio.get_running_loop().call_later(0.1, stage.let_go.set)
    await running
    assert len(stage.ended) == WAITING
    assert await states(database_url) == {"delivered": WAITING}


async def test_a_second_stop_while_a_delivery_lands_harms_no_later_run(sqlite_url: str) -> None:
    others = renewing()
    async with staged(sqlite_url) as stage:
        running = asyncio.create_task(stage.box.run())
        await stage.all_begun.wait()
        stage.box.stop()
        await until(lambda: len(renewing() - others) == 1)
        stage.box.stop()
        stage.let_go.set()
        await running
        session = await stage.box.sessions.open(target={"kind": "none"})
        told = asyncio.Event()

        @stage.box.hooks.on()
        async def tell(event: object) -> None:
            told.set()

        await stage.box.hooks.post(session.session_id, "agent_stop")
        again = asyncio.create_task(stage.box.run())
        await told.wait()
        stage.box.stop()
        await again


async def test_a_stop_before_the_first_run_ends_that_one_and_a_stop_after_a_run_ends_none(sqlite_url: str) -> None:
    async with staged(sqlite_url) as stage:
        running = asyncio.create_task(stage.box.run())
        stage.box.stop()
        await running
        assert stage.begun == []
        stage.let_go.set()
        again = asyncio.create_task(stage.box.run())
        await stage.all_begun.wait()
        stage.box.stop()
        await again
        stage.box.stop()
        earlier = renewing()
        third = asyncio.create_task(stage.box.run())
        await until(lambda: len(renewing() - earlier) == 3)
        stage.box.stop()
        await third


async def test_a_box_that_runs_is_not_run_a_second_time(sqlite_url: str) -> None:
    async with staged(sqlite_url) as stage:
        running = asyncio.create_task(stage.box.run())
        await stage.all_begun.wait()
        with pytest.raises(PillarboxError, match="runs already"):
            await stage.box.run()
        stage.let_go.set()
        stage.box.stop()
        await running
        assert await stage.states() == {"delivered": WAITING}


async def test_a_box_is_stopped_from_another_thread(sqlite_url: str) -> None:
    asyncio.get_running_loop().set_debug(True)
    async with staged(sqlite_url) as stage:
        stage.let_go.set()
        running = asyncio.create_task(stage.box.run())
        await stage.all_begun.wait()
        await asyncio.to_thread(stage.box.stop)
        await running


async def test_opening_or_closing_that_is_cancelled_again_and_again_leaves_no_thread(database_url: str) -> None:
    async def open_and_close() -> None:
        async with Pillarbox.open(database_url):
            pass

    await open_and_close()
    before = ours()
    for turns in range(6):
        opening = asyncio.create_task(open_and_close())
        for _ in range(turns):
            await asyncio.sleep(0.006)
        while not opening.done():
            opening.cancel()
            await asyncio.sleep(0)
        with suppress(asyncio.CancelledError):
            await opening
    await until(lambda: ours() <= before)


async def test_a_part_that_cannot_be_closed_keeps_no_other_from_it(sqlite_url: str) -> None:
    closed = []

    async def fail() -> None:
        raise OSError("no")

    async def note() -> None:
        closed.append(True)

    async def open_and_close() -> None:
        async with Pillarbox.open(sqlite_url) as box:
            box.outbound.close = fail  # type: ignore[method-assign]
            box.inbound.close = note  # type: ignore[method-assign]

    with pytest.raises(OSError, match="no"):
        await open_and_close()
    assert closed


def renewing() -> set[threading.Thread]:
    return called("pillarbox-renew")


def ours() -> Counter[str]:
    """The threads of boxes, by what they are for."""
    return Counter(
        [thread.name.rstrip("-0123456789_") for thread in threading.enumerate() if "asyncio" not in thread.name]
    )


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - threads ring no bell
        await asyncio.sleep(0.01)
