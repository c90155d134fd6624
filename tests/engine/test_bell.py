import asyncio
import threading

from pillarbox.engine import Bell
from tests.simulation.loop import run_virtually


def time() -> float:
    return asyncio.get_running_loop().time()


def test_a_bell_that_nobody_rings_lets_the_time_pass() -> None:
    async def main() -> None:
        await Bell().wait(7)
        assert time() == 7

    run_virtually(main())


def test_a_ring_wakes_whoever_waits() -> None:
    async def main() -> None:
        bell = Bell()
        asyncio.get_running_loop().call_later(2, bell.ring)
        await bell.wait(7)
        assert time() == 2
        assert bell.rung

    run_virtually(main())


def test_a_ring_between_clear_and_wait_is_kept() -> None:
    async def main() -> None:
        bell = Bell()
        bell.clear()
        bell.ring()
        bell.ring()
        await bell.wait(7)
        await bell.wait(7)
        assert time() == 0
        bell.clear()
        await bell.wait(7)
        assert time() == 7

    run_virtually(main())


def test_a_wait_that_is_cancelled_leaves_the_bell_usable() -> None:
    async def main() -> None:
        bell = Bell()
        waiting = asyncio.create_task(bell.wait(7))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        bell.clear()
        asyncio.get_running_loop().call_later(2, bell.ring)
        await bell.wait(7)
        assert time() == 3

    run_virtually(main())


async def test_a_ring_from_a_thread_wakes_a_loop_that_sleeps() -> None:
    bell = Bell()
    bell.clear()
    thread = threading.Timer(0.01, bell.ring_from_thread)
    thread.start()
    async with asyncio.timeout(10):
        await bell.wait(60)
    thread.join()


async def test_a_ring_from_a_thread_before_anyone_waits_is_kept() -> None:
    bell = Bell()
    thread = threading.Thread(target=bell.ring_from_thread)
    thread.start()
    thread.join()
    async with asyncio.timeout(10):
        await bell.wait(60)


def test_a_ring_from_a_thread_after_the_loop_has_closed_is_harmless() -> None:
    bell = Bell()

    async def main() -> None:
        bell.clear()

    asyncio.run(main())
    bell.ring_from_thread()
