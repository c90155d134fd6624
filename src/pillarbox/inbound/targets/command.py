"""The target that is a program, started once for each message."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Outcome, Retry
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.child import ChildProcess
from pillarbox.inbound.targets.envelope import document, identity_variables
from pillarbox.inbound.targets.placement import CommandTarget
from pillarbox.text import printable

# Short, because nobody renews the lease of a delivery whose time is over.
_GRACE_SECONDS = 0.5
_GRACE_LOOKS = 25
_REAP_SECONDS = 5.0
# What this process was trusted with is not the program's.
_OURS = ("PILLARBOX_ADMIN_KEY", "PILLARBOX_DATABASE", "PILLARBOX_SECRETS__", "PILLARBOX_ADAPTERS__")


@dataclass(frozen=True, slots=True)
class _Program:
    process: ChildProcess
    feeding: asyncio.Task[None]


async def deliver_command(spec: CommandTarget, message: InboundMessage, *, node: str, clock: Clock) -> Outcome:
    """Run the program on a message and judge its exit code; cancelled, it leaves nothing of it running."""
    given = message.content.encode() if spec.stdin == "content" else document(message, node=node) + b"\n"
    starting = asyncio.create_task(_start(spec, identity_variables(message), given))
    try:
        program = await asyncio.shield(starting)
    except OSError as error:
        return Retry(_not_started(spec, error))
    except asyncio.CancelledError:
        await _see_through(_end_started(starting))
        raise
    try:
        return _judge(await program.process.wait())
    except asyncio.CancelledError:
        await _see_through(_end(program))
        raise
    finally:
        program.feeding.cancel()


async def _start(spec: CommandTarget, variables: dict[str, str], given: bytes) -> _Program:
    # A pipe of our own: asyncio's would make the wait for the program a wait for whoever inherited its input too.
    read_end, write_end = os.pipe()
    try:
        process = ChildProcess(spec.argv, stdin=read_end, cwd=spec.cwd, env=_environment() | variables)
        await process.started()
    except BaseException:
        os.close(write_end)
        raise
    finally:
        os.close(read_end)
    feeding = asyncio.create_task(_feed(write_end, given))
    # Not in the task, which may be cancelled before it began.
    feeding.add_done_callback(lambda _: os.close(write_end))
    return _Program(process, feeding)


async def _feed(write_end: int, given: bytes) -> None:
    """Write as fast as the program reads; one that reads nothing is judged by its exit code like any other."""
    os.set_blocking(write_end, False)
    left = memoryview(given)
    with suppress(BrokenPipeError):
        while left:
            try:
                left = left[os.write(write_end, left) :]
            except BlockingIOError:
                await _writable(write_end)


async def _writable(write_end: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(write_end, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(write_end)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}


def _judge(code: int) -> Outcome:
    if code == 0:
        return Delivered()
    if code > 0:
        return Retry(f"The command exited with {code}.")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return Retry(f"The command was killed by {name}.")


def _not_started(spec: CommandTarget, error: OSError) -> str:
    kind = errno.errorcode.get(error.errno or 0, type(error).__name__)
    if spec.cwd is not None and not os.path.isdir(spec.cwd):
        return f"The command's folder cannot be entered ({kind})."
    name = printable(os.path.basename(spec.argv[0]) or spec.argv[0])
    return f"The command {name} could not be started ({kind})."


async def _see_through(work: Coroutine[None, None, None]) -> None:
    """Finish, however often the caller is cancelled meanwhile."""
    task = asyncio.create_task(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


async def _end_started(starting: asyncio.Task[_Program]) -> None:
    with suppress(OSError):
        program = await starting
        await _end(program)
        program.feeding.cancel()


async def _end(program: _Program) -> None:
    """Ask the whole group to go, then make it go."""
    group = program.process.pid
    _signal(group, signal.SIGTERM)
    for _ in range(_GRACE_LOOKS):
        if not _signal(group, 0):
            break
        await asyncio.sleep(_GRACE_SECONDS / _GRACE_LOOKS)
    else:
        _signal(group, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_REAP_SECONDS):
            await program.process.wait()


def _signal(group: int, number: int) -> bool:
    """Whether there still was anyone in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS answers so for a group of which only a zombie is left.
        return False
    return True
