"""A child process that a thread of its own starts and waits for.

An event loop's own way may run Python code between fork and exec, which can hang for ever in a process with threads, and the
whole loop with it. `subprocess` does that part in C.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any


class ChildProcess:
    """A program in a process group of its own, its output thrown away."""

    def __init__(self, argv: Sequence[str], *, stdin: int, cwd: str | None, env: Mapping[str, str]) -> None:
        self.pid = 0
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        run = (list(argv), stdin, cwd, dict(env))
        threading.Thread(target=self._run, args=run, name="pillarbox-command", daemon=True).start()

    async def started(self) -> None:
        """Until it runs; raises the `OSError` of a program that could not be started."""
        await asyncio.shield(self._started)

    async def wait(self) -> int:
        """Its exit code, or minus the number of the signal that killed it."""
        return await asyncio.shield(self._ended)

    def _run(self, argv: list[str], stdin: int, cwd: str | None, env: dict[str, str]) -> None:
        try:
            child = subprocess.Popen(  # noqa: S603 - the operator's own command, never a shell
                argv,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except BaseException as error:
            self._tell(self._started.set_exception, error)
            return
        self.pid = child.pid
        self._tell(self._started.set_result, None)
        self._tell(self._ended.set_result, child.wait())

    def _tell(self, tell: Callable[[Any], None], value: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell, value)
