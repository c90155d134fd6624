import asyncio
import os
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from pillarbox.engine.threads import in_a_thread
from tests.servers.daemon import SECONDS

MANY = 3 * (os.cpu_count() or 1) + 40

FORKED = """
import asyncio, os
from pillarbox.engine.threads import in_a_thread

print(asyncio.run(in_a_thread(int, "1")), flush=True)
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
print(asyncio.run(in_a_thread(int, "2")), flush=True)
"""

NEVER_ENDS = """
import asyncio, threading
from pillarbox.engine.threads import in_a_thread

async def main():
    began = threading.Event()
    task = asyncio.create_task(in_a_thread(lambda: (began.set(), threading.Event().wait())))
    await in_a_thread(began.wait)
    task.cancel()

asyncio.run(main())
print("left")
"""


async def test_no_call_waits_for_another_however_many_are_under_way() -> None:
    meeting = threading.Barrier(MANY)
    await asyncio.gather(*(in_a_thread(meeting.wait, SECONDS) for _ in range(MANY)))
    assert not meeting.broken


async def test_a_thread_that_is_free_takes_the_next_call() -> None:
    before = threading.active_count()
    for _ in range(MANY):
        await in_a_thread(int, "1")
    assert threading.active_count() < before + MANY


async def test_a_call_sees_what_its_caller_has_around_it_and_gives_back_what_it_returns_or_raises() -> None:
    around = ContextVar("around", default="nothing")
    around.set("something")
    assert await in_a_thread(around.get) == "something"
    with pytest.raises(ZeroDivisionError):
        await in_a_thread(divmod, 1, 0)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()])
async def test_what_would_end_the_loop_comes_as_an_ordinary_error(error: BaseException) -> None:
    def leave() -> None:
        raise error

    with pytest.raises(RuntimeError, match=type(error).__name__) as raised:
        await in_a_thread(leave)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    ("program", "printed"), [(FORKED, "1\n2\n2\n"), (NEVER_ENDS, "left\n")], ids=["forked", "never ends"]
)
def test_a_forked_child_has_threads_of_its_own_and_a_process_waits_for_none(program: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == (printed, "")
