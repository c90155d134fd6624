"""Messages typed once, whatever happens between the text and its Enter."""

import asyncio
import fcntl
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Delivered, Retry, Untouched
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.tmux import TmuxDeliverer
from pillarbox.settings import load_settings
from tests.inbound.targets.messages import a_message
from tests.inbound.targets.tmux_stage import BEGIN, END, PATIENCE, Recorder, ShamTmux, Stage, submitted

HUNG = Retry("tmux did not answer within 1 s.")
# Delivers the messages of the numbers it is given, one after another, waiting `pause` between text and Enter.
DELIVERING = """
import asyncio, json, sys
from pillarbox.inbound.targets.placement import TmuxTarget
from pillarbox.inbound.targets.tmux import TmuxDeliverer
from tests.inbound.targets.messages import a_message

async def main(socket, pause, numbers):
    deliverer = TmuxDeliverer(pause_seconds=pause)
    for number in numbers:
        message = a_message(id=number, content=f"message {number}", actor_name=None, payload_json=None)
        print(await deliverer.deliver(TmuxTarget(name="agent", socket=socket), message), flush=True)

asyncio.run(main(*json.loads(sys.argv[1])))
"""


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture
async def recorder(stage: Stage) -> Recorder:
    return await stage.record("agent")


@pytest.fixture
def sham(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShamTmux:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return ShamTmux(folder)


@pytest.fixture
def deliverer() -> TmuxDeliverer:
    return TmuxDeliverer(pause_seconds=0, call_seconds=1)


def message(number: int, **changes: object) -> InboundMessage:
    given = {"content": f"message {number}", "actor_name": None, "payload_json": None, **changes}
    return a_message(id=number, **given)


@pytest.mark.parametrize("fault", ["fail-enter", "hang-enter", "flood-enter", "late-paste"])
async def test_a_text_without_its_enter_is_not_pasted_again(
    stage: Stage, recorder: Recorder, sham: ShamTmux, deliverer: TmuxDeliverer, fault: str
) -> None:
    sham.will(fault)
    assert isinstance(await deliverer.deliver(stage.target("agent"), message(1)), Retry)
    assert await recorder.until(END) == BEGIN + b"message 1" + END
    sham.behave()
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await deliverer.deliver(stage.target("agent"), message(2)) == Delivered()
    assert await recorder.submission() == b"\r" + submitted("message 2")


@pytest.mark.parametrize("fault", ["fail-look", "hang-look", "fail-paste", "hang-paste"])
async def test_what_never_reached_the_pane_is_pasted_by_the_next_attempt(
    stage: Stage, recorder: Recorder, sham: ShamTmux, deliverer: TmuxDeliverer, fault: str
) -> None:
    sham.will(fault)
    assert isinstance(await deliverer.deliver(stage.target("agent"), message(1)), Retry)
    sham.behave()
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await recorder.submission() == submitted("message 1")


async def test_an_enter_whose_answer_was_lost_is_not_pressed_again(
    stage: Stage, recorder: Recorder, sham: ShamTmux, deliverer: TmuxDeliverer
) -> None:
    sham.will("late-enter")
    assert await deliverer.deliver(stage.target("agent"), message(1)) == HUNG
    sham.behave()
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await deliverer.deliver(stage.target("agent"), message(2)) == Delivered()
    assert await recorder.submission() + await recorder.submission() == submitted("message 1") + submitted("message 2")


async def test_a_message_behind_one_that_was_given_up_half_typed_is_a_submission_of_its_own(
    stage: Stage, recorder: Recorder, sham: ShamTmux, deliverer: TmuxDeliverer
) -> None:
    sham.will("fail-enter")
    await deliverer.deliver(stage.target("agent"), message(1))
    sham.behave()
    assert await deliverer.deliver(stage.target("agent"), message(2, session_id="another")) == Delivered()
    assert await recorder.submission() + await recorder.submission() == submitted("message 1") + submitted("message 2")
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await deliverer.deliver(stage.target("agent"), message(3)) == Delivered()
    assert await recorder.submission() == submitted("message 3"), "the first was not typed again"


async def test_a_text_that_went_down_with_its_program_is_pasted_into_the_next_one(
    stage: Stage, recorder: Recorder, sham: ShamTmux, deliverer: TmuxDeliverer
) -> None:
    stage.remains("agent")
    sham.will("fail-enter")
    await deliverer.deliver(stage.target("agent"), message(1))
    sham.behave()
    stage.end_program("agent")
    dead = await deliverer.deliver(stage.target("agent"), message(1))
    assert dead == Retry("The program in the tmux pane has ended.")
    again = await stage.record("agent", "bracketed", "respawn-pane", "-t", "=agent:")
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await again.submission() == submitted("message 1")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("paste", "The tmux pane changed while the message was being typed."),
        ("enter", "The program in the tmux pane has ended."),
    ],
)
async def test_a_program_that_dies_in_the_last_moment_does_not_take_the_server_with_it(
    stage: Stage, sham: ShamTmux, call: str, sentence: str
) -> None:
    other = await stage.record("other")
    stage.remains("agent")
    sham.will(f"before-{call}", stage.ending("agent"))
    deliverer = TmuxDeliverer(pause_seconds=0)
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Retry(sentence)
    sham.behave()
    assert stage.tmux("list-buffers") == ""
    assert await deliverer.deliver(stage.target("other"), message(2)) == Delivered()
    assert await other.submission() == submitted("message 2")
    again = await stage.record("agent", "bracketed", "respawn-pane", "-t", "=agent:")
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await again.submission() == submitted("message 1")


@pytest.mark.parametrize("call", ["look", "paste", "enter"])
async def test_a_cancelled_delivery_leaves_no_process_behind(
    stage: Stage, sham: ShamTmux, deliverer: TmuxDeliverer, call: str, tmp_path: Path
) -> None:
    sham.will(f"hang-{call}")
    delivery = asyncio.create_task(TmuxDeliverer().deliver(stage.target("agent"), message(1)))
    async with asyncio.timeout(PATIENCE):
        while all(what != call for _, what in sham.calls()):  # noqa: ASYNC110 - in a file
            await asyncio.sleep(0.01)
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    # A process that were left would still hold the lock.
    with stage.lock_file() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("call", ["look", "paste", "enter"])
async def test_a_server_that_stood_still_and_goes_on_types_nothing_twice(
    stage: Stage, recorder: Recorder, sham: ShamTmux, deliverer: TmuxDeliverer, call: str
) -> None:
    """What a client had asked for before it was given up, the server may still do afterwards."""
    server = int(stage.tmux("display-message", "-p", "#{pid}"))
    sham.will(f"before-{call}", f"kill -STOP {server}")
    assert await deliverer.deliver(stage.target("agent"), message(1)) == HUNG
    for thread in threading.enumerate():
        if thread.name == "pillarbox-tmux":
            await asyncio.to_thread(thread.join, PATIENCE)
            assert not thread.is_alive(), "nobody waits for what a server that hangs may never say"
    sham.behave()
    again = asyncio.create_task(deliverer.deliver(stage.target("agent"), message(1)))
    # One more that is asked while nobody answers, if it comes so far.
    await asyncio.sleep(0)
    os.kill(server, signal.SIGCONT)
    outcome = await again
    while isinstance(outcome, Retry):
        outcome = await deliverer.deliver(stage.target("agent"), message(1))
    assert await deliverer.deliver(stage.target("agent"), message(2)) == Delivered()
    assert await recorder.submission() + await recorder.submission() == submitted("message 1") + submitted("message 2")
    assert stage.tmux("list-buffers") == ""


async def test_a_daemon_killed_between_text_and_enter_is_continued_by_the_next(
    stage: Stage, recorder: Recorder, deliverer: TmuxDeliverer
) -> None:
    daemon = await delivering(stage, PATIENCE, [1])
    assert await recorder.until(END) == BEGIN + b"message 1" + END
    daemon.send_signal(signal.SIGKILL)
    await daemon.communicate()
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await deliverer.deliver(stage.target("agent"), message(2)) == Delivered()
    assert await recorder.submission() == b"\r" + submitted("message 2")


async def test_two_daemons_at_one_tmux_server_deliver_one_by_one(
    stage: Stage, recorder: Recorder, sham: ShamTmux
) -> None:
    daemons = [await delivering(stage, 0, list(range(first, first + 10))) for first in (1, 101)]
    printed = [(await daemon.communicate())[0] for daemon in daemons]
    assert printed == [b"Delivered(receipt=None)\n" * 10] * 2
    came = Counter([await recorder.submission() for _ in range(20)])
    assert came == Counter(submitted(f"message {number}") for number in [*range(1, 11), *range(101, 111)])
    turns = [[what for _, what in calls] for _, calls in groupby(sham.calls(), key=lambda call: call[0])]
    assert all(turn == ["look", "paste", "enter"] * (len(turn) // 3) for turn in turns)


async def test_while_another_process_is_at_the_server_a_message_waits_without_an_attempt(
    stage: Stage, recorder: Recorder
) -> None:
    deliverer = TmuxDeliverer(turn_wait_seconds=0.1)
    with stage.lock_file() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        outcome = await deliverer.deliver(stage.target("agent"), message(1))
    assert outcome == Retry("Another process is delivering to this tmux server.", counts=False)
    assert await deliverer.deliver(stage.target("agent"), message(1)) == Delivered()
    assert await recorder.submission() == submitted("message 1")


async def test_messages_that_are_stopped_while_they_wait_for_their_turn_have_not_begun(stage: Stage) -> None:
    deliverer = TmuxDeliverer(turn_wait_seconds=PATIENCE)

    async def stopped(number: int) -> type[BaseException] | None:
        try:
            await deliverer.deliver(stage.target("agent"), message(number))
        except asyncio.CancelledError as error:
            return type(error)
        return None

    with stage.lock_file() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        waiting = [asyncio.create_task(stopped(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        assert await asyncio.gather(*waiting) == [Untouched, Untouched]


async def test_a_busy_process_lets_the_others_in(stage: Stage, recorder: Recorder) -> None:
    busy, other = TmuxDeliverer(pause_seconds=0), TmuxDeliverer(pause_seconds=0, turn_wait_seconds=PATIENCE)
    await stage.record("second")
    working = asyncio.gather(*(busy.deliver(stage.target("second"), message(number)) for number in range(1, 301)))
    assert await other.deliver(stage.target("agent"), message(999)) == Delivered()
    assert not working.done()
    working.cancel()
    await asyncio.wait([working])


async def test_messages_come_once_and_in_order_through_failing_calls_and_a_missing_terminal(
    stage: Stage, recorder: Recorder, sham: ShamTmux, sqlite_url: str
) -> None:
    inbound = {"poll_seconds": 0.02, "backoff_seconds": [0.02]}
    target = {"kind": "tmux", "name": "agent", "socket": stage.socket}
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={}, inbound=inbound)) as box:
        await box.sessions.open(session_id="s1", target=target)
        sham.will("fail-enter")
        await enqueue(box, 1, 6)
        working = asyncio.create_task(box.run())
        assert await recorder.until(END) == BEGIN + b"message 1" + END
        sham.behave()
        assert await recorder.read(1) == b"\r"
        for number in range(2, 6):
            assert await recorder.submission() == submitted(f"message {number}")
        # What was typed and not marked when the terminal went away would rightly be typed again.
        await until_empty(box)
        stage.tmux("new-session", "-d", "-s", "keeps the server", "cat")
        stage.tmux("kill-session", "-t", "=agent:")
        await enqueue(box, 6, 11)
        await until_failed(box, "There is no tmux session agent on this node.")
        again = await stage.record("agent")
        for number in range(6, 11):
            assert await again.submission() == submitted(f"message {number}")
        box.stop()
        await working


async def enqueue(box: Pillarbox, first: int, behind_last: int) -> None:
    for number in range(first, behind_last):
        await box.inbound.enqueue(session_id="s1", origin="test", content=f"message {number}")


async def until_empty(box: Pillarbox) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await box.inbound.queue("s1")).head is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def until_failed(box: Pillarbox, error: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (head := (await box.inbound.queue("s1")).head) is None or head.last_error != error:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def delivering(stage: Stage, pause: float, numbers: list[int]) -> asyncio.subprocess.Process:
    arguments = json.dumps([stage.socket, pause, numbers])
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", DELIVERING, arguments, stdout=asyncio.subprocess.PIPE
    )
