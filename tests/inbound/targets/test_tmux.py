"""Messages typed into real tmux sessions."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pillarbox.engine import Delivered, Outcome, Retry
from pillarbox.inbound.targets.placement import TmuxTarget
from pillarbox.inbound.targets.tmux import TmuxDeliverer
from pillarbox.inbound.targets.tmux_text import clean
from tests.inbound.targets.hostile_bodies import hostile_bodies
from tests.inbound.targets.messages import a_message
from tests.inbound.targets.tmux_stage import Stage, submitted


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture
def deliverer() -> TmuxDeliverer:
    return TmuxDeliverer(pause_seconds=0)


def said(content: str, message_id: int = 1, **changes: Any) -> Any:
    return a_message(id=message_id, content=content, payload_json=None, **{"actor_name": None, **changes})


async def test_a_hundred_hostile_bodies_arrive_as_text_once_each_and_run_nothing(
    stage: Stage, deliverer: TmuxDeliverer, tmp_path: Path
) -> None:
    recorder, neighbour = await stage.record("sess1"), await stage.record("sess10")
    bodies = hostile_bodies(tmp_path / "marker")
    assert len({body for body, _ in bodies}) >= 100
    for number, (body, text) in enumerate(bodies, 1):
        assert await deliverer.deliver(stage.target("sess1"), said(body, number)) == Delivered()
        # Byte by byte as a terminal must see it, whatever our own functions say.
        assert await recorder.submission() == b"\x1b[200~" + text.encode() + b"\x1b[201~\r", body[:100]
    assert not (tmp_path / "marker").exists()
    await deliverer.deliver(stage.target("sess10"), said("to the neighbour", 1000))
    assert await neighbour.submission() == submitted("to the neighbour"), "and nothing before it"
    assert stage.tmux("list-buffers") == ""


@pytest.mark.parametrize("point", [*range(1, 32), *range(0x7F, 0xA0)])
async def test_no_control_character_but_newline_and_tab_is_ever_typed(point: int) -> None:
    kept = {9: "\t", 10: "\n", 13: "\n"}.get(point, "")
    assert clean(f"a{chr(point)}b") == f"a{kept}b"


async def test_a_message_for_a_session_is_not_typed_into_one_whose_name_begins_alike(
    stage: Stage, deliverer: TmuxDeliverer
) -> None:
    neighbour = await stage.record("sess10")
    outcome = await deliverer.deliver(stage.target("sess1"), said("not for you"))
    assert outcome == Retry("There is no tmux session sess1 on this node.")
    assert await deliverer.deliver(stage.target("sess10"), said("for you", 2)) == Delivered()
    assert await neighbour.submission() == submitted("for you")


@pytest.mark.parametrize("name", ["a.b:c", "back\\slash", "=x", "@1", "%0", "{mouse}", "ünï 世界", "-d", "a#b", "a;b"])
async def test_a_session_is_found_by_whatever_name_tmux_was_given(
    stage: Stage, deliverer: TmuxDeliverer, name: str
) -> None:
    await stage.record("bystander")
    recorder = await stage.record("", "bracketed", "new-session", "-d", "-s", name, "--")
    assert await deliverer.deliver(stage.target(name), said("hello")) == Delivered()
    assert await recorder.submission() == submitted("hello")


async def test_a_pane_in_copy_mode_is_brought_back_and_gets_the_whole_message(
    stage: Stage, deliverer: TmuxDeliverer
) -> None:
    recorder = await stage.record("agent")
    for number, mode in enumerate(["copy-mode", "clock-mode", "choose-tree"], 1):
        stage.tmux(mode, "-t", "=agent:")
        assert await deliverer.deliver(stage.target("agent"), said(f"two\nlines {number}", number)) == Delivered()
        assert await recorder.submission() == submitted(f"two\nlines {number}")


async def test_a_dead_pane_waits_and_leaves_the_server_and_its_other_sessions_alive(
    stage: Stage, deliverer: TmuxDeliverer
) -> None:
    await stage.record("agent")
    other = await stage.record("other")
    stage.remains("agent")
    stage.end_program("agent")
    outcome = await deliverer.deliver(stage.target("agent"), said("hello"))
    assert outcome == Retry("The program in the tmux pane has ended.")
    assert await deliverer.deliver(stage.target("other"), said("alive?", 2)) == Delivered()
    assert await other.submission() == submitted("alive?")
    again = await stage.record("agent", "bracketed", "respawn-pane", "-t", "=agent:")
    assert await deliverer.deliver(stage.target("agent"), said("hello")) == Delivered()
    assert await again.submission() == submitted("hello")


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (("select-pane", "-d", "-t", "=agent:"), "Input to the tmux pane is turned off."),
        (
            ("set-option", "-w", "-t", "=agent:", "synchronize-panes", "on"),
            "The tmux window types into all its panes at once (synchronize-panes).",
        ),
    ],
)
async def test_a_pane_that_would_drop_or_spread_the_text_waits(
    stage: Stage, deliverer: TmuxDeliverer, setting: tuple[str, ...], sentence: str
) -> None:
    await stage.record("agent")
    stage.tmux(*setting)
    assert await deliverer.deliver(stage.target("agent"), said("hello")) == Retry(sentence)


async def test_a_killed_session_waits_and_its_successor_gets_the_message(
    stage: Stage, deliverer: TmuxDeliverer
) -> None:
    await stage.record("agent")
    await stage.record("other")
    stage.tmux("kill-session", "-t", "=agent:")
    outcome = await deliverer.deliver(stage.target("agent"), said("hello"))
    assert outcome == Retry("There is no tmux session agent on this node.")
    recorder = await stage.record("agent")
    assert await deliverer.deliver(stage.target("agent"), said("hello")) == Delivered()
    assert await recorder.submission() == submitted("hello")


@pytest.mark.parametrize("socket", ["nowhere", "/nowhere/at/all", "server-that-is-not-there"])
async def test_a_server_that_does_not_run_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deliverer: TmuxDeliverer, socket: str
) -> None:
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    outcome = await deliverer.deliver(TmuxTarget(name="agent", socket=socket), said("hello"))
    assert outcome == Retry("There is no tmux session agent on this node.")


async def test_a_missing_tmux_is_said(
    stage: Stage, deliverer: TmuxDeliverer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = await deliverer.deliver(stage.target("agent"), said("hello"))
    assert outcome == Retry("tmux is not installed on this node, or not on its PATH.")


async def test_messages_stay_with_the_pane_they_began_with(stage: Stage, deliverer: TmuxDeliverer) -> None:
    recorder = await stage.record("agent")
    assert await deliverer.deliver(stage.target("agent"), said("one", 1)) == Delivered()
    await stage.record("", "bracketed", "new-window", "-t", "=agent:")
    assert await deliverer.deliver(stage.target("agent"), said("two", 2)) == Delivered()
    assert await recorder.submission() + await recorder.submission() == submitted("one") + submitted("two")
    stage.tmux("kill-window", "-t", "=agent:0")
    outcome = await deliverer.deliver(stage.target("agent"), said("three", 3))
    assert isinstance(outcome, Retry)
    assert outcome.error.startswith("The tmux pane %0 is gone;")


async def test_a_program_without_bracketed_paste_gets_one_line(stage: Stage, deliverer: TmuxDeliverer) -> None:
    recorder = await stage.record("agent", "plain")
    spec = stage.target("agent", paste="single-line")
    assert await deliverer.deliver(spec, said("one\ntwo\tthree\r\nfour\n")) == Delivered()
    assert await recorder.until(b"\r") == b"one two three four\r"


async def test_a_line_that_a_cooked_terminal_would_cut_is_not_typed(stage: Stage, deliverer: TmuxDeliverer) -> None:
    recorder = await stage.record("agent", "cooked")
    outcome = await deliverer.deliver(stage.target("agent"), said("x" * 10_000))
    assert outcome == Retry("The program in the tmux pane reads by lines, of which a terminal keeps 4095 bytes.")
    assert await deliverer.deliver(stage.target("agent"), said("y" * 4095, 2)) == Delivered()
    assert await recorder.until(b"\n") == b"y" * 4095 + b"\n"


@pytest.mark.parametrize("content", ["", " \n\t ", "\x1b\x07\r\n", "\u2028"])
async def test_nothing_is_never_typed_as_an_empty_line(stage: Stage, deliverer: TmuxDeliverer, content: str) -> None:
    recorder = await stage.record("agent")
    for number, envelope in enumerate((True, False), 3):
        outcome = await deliverer.deliver(stage.target("agent", envelope=envelope), said(content, number))
        assert outcome == Delivered(), "what comes behind it does not wait"
        assert await recorder.submission() == submitted("(nothing that can be typed)")
    assert await deliverer.deliver(stage.target("agent"), said(content, 2, actor_name="Ada")) == Delivered()
    assert await recorder.submission() == submitted('["Ada" via telegram] (nothing that can be typed)')


async def test_the_loop_goes_on_while_messages_are_typed(stage: Stage, deliverer: TmuxDeliverer) -> None:
    recorder = await stage.record("agent")
    longest, last = 0.0, time.monotonic()
    typing = asyncio.gather(*(deliverer.deliver(stage.target("agent"), said("x" * 100_000, n)) for n in range(1, 9)))
    while not typing.done():
        await asyncio.sleep(0)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert await typing == [Delivered()] * 8
    assert longest < 0.5
    for _ in range(8):
        assert await recorder.submission() == submitted("x" * 100_000)


def test_it_works_on_uvloop_too(tmp_path: Path) -> None:
    async def scenario() -> Outcome:
        async with Stage(tmp_path) as stage:
            recorder = await stage.record("agent")
            outcome = await TmuxDeliverer().deliver(stage.target("agent"), said("hello"))
            assert await recorder.submission() == submitted("hello")
            return outcome

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == Delivered()
