import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pillarbox.clock import system_clock
from pillarbox.engine import Delivered, Outcome, Retry
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.command import deliver_command
from pillarbox.inbound.targets.placement import CommandTarget
from tests.inbound.targets.messages import a_message

LARGE = a_message(content="x" * 1_000_000)


def shell(script: str, *arguments: object, **options: Any) -> CommandTarget:
    return CommandTarget(argv=("sh", "-c", script, "sh", *map(str, arguments)), **options)


def python(script: str) -> CommandTarget:
    return CommandTarget(argv=(sys.executable, "-c", script))


def deliver(spec: CommandTarget, message: InboundMessage | None = None) -> Coroutine[Any, Any, Outcome]:
    return deliver_command(spec, message or a_message(), node="n1", clock=system_clock())


class Witness:
    """A pipe that every process of a program holds open: what it says, and when the last of them is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    async def first_line(self) -> str:
        self._file = await asyncio.to_thread(self.path.open)
        return await asyncio.to_thread(self._file.readline)

    async def last_words(self) -> str:
        with self._file:
            return await asyncio.to_thread(self._file.read)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness")


async def test_the_program_reads_the_document_and_a_newline(tmp_path: Path) -> None:
    assert await deliver(shell('cat > "$1"', tmp_path / "given")) == Delivered()
    text = (tmp_path / "given").read_text()
    assert text.endswith("\n")
    given = json.loads(text)
    assert (given["message_id"], given["token"], given["node"], given["seq"]) == (41, 12, "n1", 7)


async def test_the_program_may_ask_for_the_content_alone(tmp_path: Path) -> None:
    message = a_message(content="two\nlines, Grüße")
    assert await deliver(shell('cat > "$1"', tmp_path / "given", stdin="content"), message) == Delivered()
    assert (tmp_path / "given").read_text() == "two\nlines, Grüße"


async def test_a_large_message_is_read_whole() -> None:
    assert await deliver(shell('test "$(wc -c)" -gt 1000000'), LARGE) == Delivered()


async def test_arguments_are_passed_as_they_are(tmp_path: Path) -> None:
    script = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(repr(sys.argv[2:]))"
    arguments = ("a b", "$HOME; `id`", "", "*")
    spec = CommandTarget(argv=(sys.executable, "-c", script, str(tmp_path / "given"), *arguments))
    assert await deliver(spec) == Delivered()
    assert (tmp_path / "given").read_text() == repr(list(arguments))


async def test_the_environment_names_the_message_and_hides_what_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = ["PILLARBOX_ADMIN_KEY", "PILLARBOX_DATABASE", "PILLARBOX_SECRETS__KEY"]
    for name in [*hidden, "KEPT"]:
        monkeypatch.setenv(name, "value")
    assert await deliver(shell('env > "$1"', tmp_path / "given")) == Delivered()
    environment = dict(line.split("=", 1) for line in (tmp_path / "given").read_text().splitlines() if "=" in line)
    expected = {
        "PILLARBOX_MESSAGE_ID": "41",
        "PILLARBOX_SESSION": "s1",
        "PILLARBOX_SEQ": "7",
        "PILLARBOX_ATTEMPT": "3",
        "PILLARBOX_TOKEN": "12",
        "PILLARBOX_ORIGIN": "telegram",
        "KEPT": "value",
    }
    assert expected.items() <= environment.items()
    assert not environment.keys() & set(hidden)


async def test_the_program_runs_in_its_folder(tmp_path: Path) -> None:
    assert await deliver(shell("touch here", cwd=str(tmp_path))) == Delivered()
    assert (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("exit 0", Delivered()),
        ("exit 3", Retry("The command exited with 3.")),
        ("echo secret words; echo secret words >&2; exit 1", Retry("The command exited with 1.")),
        ("kill -KILL $$", Retry("The command was killed by SIGKILL.")),
        ("kill -TERM $$", Retry("The command was killed by SIGTERM.")),
    ],
)
@pytest.mark.parametrize("message", [a_message(), LARGE], ids=["small", "large"])
async def test_the_exit_code_decides_whether_or_not_the_message_was_read(
    script: str, outcome: Outcome, message: InboundMessage
) -> None:
    assert await deliver(shell(script), message) == outcome


async def test_a_talkative_program_is_not_held_up() -> None:
    script = "import sys; sys.stdout.write('x' * 1_000_000); sys.stderr.write('x' * 1_000_000)"
    assert await deliver(python(script)) == Delivered()


async def test_a_child_left_behind_with_the_input_does_not_hold_up_the_outcome(witness: Witness) -> None:
    """It has inherited the unread input and keeps it open until the test lets it go."""
    script = 'exec 3> "$1"; exec 4<&0; (read -r line < "$2"; echo "$line" >&3) & echo ready >&3; exit 5'
    door = witness.path.with_name("door")
    os.mkfifo(door)
    delivery = asyncio.create_task(deliver(shell(script, witness.path, door), LARGE))
    assert await witness.first_line() == "ready\n"
    assert await delivery == Retry("The command exited with 5.")
    await asyncio.to_thread(door.write_text, "go\n")
    assert await witness.last_words() == "go\n"


@pytest.mark.parametrize(
    ("name", "mode", "error"),
    [
        ("missing", None, "The command missing could not be started (ENOENT)."),
        ("plain", 0o644, "The command plain could not be started (EACCES)."),
        ("garbage", 0o755, "The command garbage could not be started (ENOEXEC)."),
    ],
)
async def test_a_program_that_cannot_be_started_is_named(
    name: str, mode: int | None, error: str, tmp_path: Path
) -> None:
    if mode is not None:
        (tmp_path / name).write_text("neither a program nor a script")
        (tmp_path / name).chmod(mode)
    assert await deliver(CommandTarget(argv=(str(tmp_path / name),))) == Retry(error)


async def test_a_missing_folder_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    outcome = await deliver(shell("exit 0", cwd=str(tmp_path / "missing")))
    assert outcome == Retry("The command's folder cannot be entered (ENOENT).")


async def test_a_cancelled_program_may_clean_up(witness: Witness) -> None:
    script = """
        exec 3> "$1"
        trap 'echo bye >&3; exit 0' TERM
        echo ready >&3
        while :; do tail -f /dev/null & wait $!; done
    """
    delivery = asyncio.create_task(deliver(shell(script, witness.path)))
    assert await witness.first_line() == "ready\n"
    await cancelled(delivery)
    assert await witness.last_words() == "bye\n"


async def test_a_cancelled_program_that_will_not_go_is_killed_with_its_children(witness: Witness) -> None:
    script = """
        exec 3> "$1"
        trap '' TERM
        tail -f /dev/null &
        echo ready >&3
        wait
    """
    delivery = asyncio.create_task(deliver(shell(script, witness.path), LARGE))
    assert await witness.first_line() == "ready\n"
    await cancelled(delivery)
    assert await witness.last_words() == ""


async def test_children_that_outlive_a_cancelled_program_are_killed(witness: Witness) -> None:
    script = """
        exec 3> "$1"
        (trap '' TERM; echo ready >&3; tail -f /dev/null; :) &
        wait
    """
    delivery = asyncio.create_task(deliver(shell(script, witness.path)))
    assert await witness.first_line() == "ready\n"
    await cancelled(delivery)
    assert await witness.last_words() == ""


async def test_a_second_cancellation_does_not_cut_the_killing_short(witness: Witness) -> None:
    script = "exec 3> \"$1\"; trap '' TERM; echo ready >&3; tail -f /dev/null; :"
    delivery = asyncio.create_task(deliver(shell(script, witness.path)))
    assert await witness.first_line() == "ready\n"
    delivery.cancel()
    await asyncio.wait([delivery], timeout=0.05)
    await cancelled(delivery)
    assert await witness.last_words() == ""


async def test_a_program_cancelled_while_it_starts_is_gone_too(witness: Witness) -> None:
    watching = os.open(witness.path, os.O_RDONLY | os.O_NONBLOCK)
    before = open_descriptors()
    for ticks in range(6):
        delivery = asyncio.create_task(deliver(shell('exec 3> "$1"; exec tail -f /dev/null', witness.path)))
        for _ in range(ticks):
            await asyncio.wait([delivery], timeout=0)
        await cancelled(delivery)
        assert os.read(watching, 1) == b"", "a process that holds the pipe would make this block"
    await asyncio.to_thread(int)
    assert open_descriptors() == before
    os.close(watching)


async def test_no_descriptor_is_left_open() -> None:
    await deliver(shell("exit 0"))
    before = open_descriptors()
    for spec in (shell("exit 0"), shell("exit 1"), CommandTarget(argv=("/missing",))):
        await deliver(spec, LARGE)
    await asyncio.to_thread(int)
    assert open_descriptors() == before


def test_it_works_on_uvloop_too(tmp_path: Path) -> None:
    async def scenario() -> list[Outcome]:
        reading = await deliver(shell('cat > "$1"', tmp_path / "given"), LARGE)
        outcomes = [await deliver(spec, LARGE) for spec in (shell("exit 4"), CommandTarget(argv=("/missing",)))]
        await cancelled(asyncio.create_task(deliver(shell("trap '' TERM; tail -f /dev/null; :"))))
        return [reading, *outcomes]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(scenario()) == [
            Delivered(),
            Retry("The command exited with 4."),
            Retry("The command missing could not be started (ENOENT)."),
        ]
    assert json.loads((tmp_path / "given").read_text())["content"] == LARGE.content


async def cancelled(delivery: asyncio.Task[Outcome]) -> None:
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))
