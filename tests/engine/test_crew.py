"""What waits has a task to itself, and what does not shares one."""

import asyncio

from pillarbox.engine.crew import Crew


async def test_what_never_waits_is_done_in_order_by_few_tasks() -> None:
    done: list[int] = []
    tasks = set()

    async def do(item: int) -> None:
        tasks.add(asyncio.current_task())
        done.append(item)

    crew = Crew(do)
    for item in range(100):
        crew.add(item)
    await crew.landed()
    assert done == list(range(100))
    assert len(tasks) == 4


async def test_others_have_their_turn_while_much_is_done_that_never_waits() -> None:
    done: list[int] = []
    seen: list[int] = []

    async def do(item: int) -> None:
        done.append(item)

    crew = Crew(do)
    for item in range(100):
        crew.add(item)
    while len(done) < 100:
        await asyncio.sleep(0)
        seen.append(len(done))
    assert seen == [32, 64, 96, 100]


async def test_what_is_large_takes_up_more_of_a_stretch() -> None:
    done: list[int] = []
    seen: list[int] = []

    async def do(item: int) -> None:
        done.append(item)

    crew = Crew(do, size=lambda item: item)
    for item in (31, 20, 40, 1, 1):
        crew.add(item)
    while len(done) < 5:
        await asyncio.sleep(0)
        seen.append(len(done))
    await crew.landed()
    assert seen == [2, 3, 5]


async def test_whatever_waits_holds_nobody_up() -> None:
    begun: list[int] = []
    gate = asyncio.Event()

    async def do(item: int) -> None:
        begun.append(item)
        if item % 2:
            await gate.wait()

    crew = Crew(do)
    for item in range(10):
        crew.add(item)
    await crew.landed(at_most=0.01)
    assert begun == list(range(10))
    crew.add(10)
    await asyncio.sleep(0)
    assert begun[-1] == 10
    gate.set()
    await crew.landed()


async def test_one_that_is_stopped_leaves_the_rest_to_another() -> None:
    tasks: dict[int, asyncio.Task[None] | None] = {}

    async def do(item: int) -> None:
        tasks[item] = asyncio.current_task()
        try:
            await asyncio.Event().wait() if item == 0 else None
        except asyncio.CancelledError:
            crew.add(2)

    crew = Crew(do)
    crew.add(0)
    crew.add(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stopped = tasks[0]
    assert stopped is not None
    stopped.cancel()
    await crew.landed()
    assert list(tasks) == [0, 1, 2]
    assert tasks[2] is not stopped
