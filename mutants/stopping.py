"""Programs that take minutes: told to stop, each lets go of what it has begun, says so in one line, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_TOLD_BY = (signal.SIGINT, signal.SIGTERM)
_GRACE = 30.0
"""For tests that were told to stop, which have servers to stop themselves."""


def run(main: Callable[[], int]) -> int:
    """What the program answers; told to stop, 130 at Ctrl-C and 143 at SIGTERM. Told again, it goes on letting go."""
    told: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        told.append(number)
        sys.exit(128 + number)

    before = {each: signal.signal(each, end) for each in _TOLD_BY}
    try:
        return main()
    except BaseException as error:
        if not told:
            raise
        left = "nothing is left" if isinstance(error, SystemExit) else f"letting go failed: {error!r}"
        print(f"interrupted; {left}", file=sys.stderr)
        return 128 + told[0]
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def forking() -> Iterator[None]:
    """Forks here are not interrupted: what a signal raises in the middle of one is lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD_BY)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD_BY)


def as_forked() -> None:
    """In a process that was forked: Ctrl-C is left to the parent, who ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD_BY)


@contextmanager
def company(command: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """A program with all that it starts; if it still runs in the end it is told to stop, and after a while killed."""
    running: subprocess.Popen[str] | None = None
    try:
        with forking():
            running = subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=_listen, **how)  # noqa: PLW1509 - one thread
        yield running
    finally:
        if running is not None:
            _end(running)


def _listen() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD_BY)


def _end(running: subprocess.Popen[str]) -> None:
    with running:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=_GRACE)
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
