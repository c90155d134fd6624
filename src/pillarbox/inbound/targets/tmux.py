"""The target that is a program in a tmux session: each message is pasted into its input and submitted by one Enter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from pillarbox.engine import Delivered, Outcome, Retry, not_begun
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.placement import TmuxTarget
from pillarbox.inbound.targets.tmux_lock import Busy, ServerLock
from pillarbox.inbound.targets.tmux_pane import Pane, Terminal
from pillarbox.inbound.targets.tmux_server import NoSuchTerminal, TmuxServer, TmuxTrouble
from pillarbox.inbound.targets.tmux_text import mark_of, session_key, typed
from pillarbox.inbound.targets.tmux_tty import LONGEST_LINE, program_began, would_be_cut
from pillarbox.text import printable

_CALL_SECONDS = 5.0
# Between a text and its Enter, for programs that take a key which arrives together with a paste as a part of it.
_PAUSE_SECONDS = 0.08
_TURN_WAIT_SECONDS = 10.0
# An agent takes a moment to put away what it was doing.
_AFTER_INTERRUPT = 0.5
_START_SECONDS = 10.0

Adopted = Callable[[str], Awaitable[None]]
"""Called with a session once its program was started."""


class TmuxDeliverer:
    """Types messages into tmux sessions of this machine, each session one by one."""

    def __init__(
        self,
        *,
        call_seconds: float = _CALL_SECONDS,
        pause_seconds: float = _PAUSE_SECONDS,
        turn_wait_seconds: float = _TURN_WAIT_SECONDS,
        adopted: Adopted | None = None,
    ) -> None:
        self._adopted = adopted
        self._call_seconds = call_seconds
        self._pause_seconds = pause_seconds
        self._turn_wait_seconds = turn_wait_seconds
        self._server_locks: dict[Path, ServerLock] = {}
        self._session_locks: WeakValueDictionary[tuple[Path, str], asyncio.Lock] = WeakValueDictionary()

    async def deliver(self, spec: TmuxTarget, message: InboundMessage, *, interrupt: bool = False) -> Outcome:
        """Type one message, or find that it was typed before; what was pasted already only gets its Enter.

        With `interrupt` the program is first made to leave what it is doing.
        """
        server = TmuxServer(spec.socket or "default")
        path = server.path
        if spec.start:
            await asyncio.to_thread(_make_folder, path.parent)
        one_by_one = self._session_locks.setdefault((path, spec.name), asyncio.Lock())
        server_lock = self._server_locks.setdefault(path, ServerLock(path))
        try:
            async with AsyncExitStack() as turn:
                with not_begun():
                    await turn.enter_async_context(one_by_one)
                    held = await turn.enter_async_context(server_lock.held(at_most=self._turn_wait_seconds))
                terminal = Terminal(server, spec.name, session_key(message.session_id), held, self._call_seconds)
                if spec.start:
                    await self._adopt(terminal, spec, message.session_id)
                return await self._type(terminal, spec, message, interrupt=interrupt)
        except Busy as busy:
            return Retry(str(busy), counts=False)
        except NoSuchTerminal:
            return Retry(f"There is no tmux session {printable(spec.name)} on this node.")
        except TmuxTrouble as trouble:
            return Retry(str(trouble))

    async def _adopt(self, terminal: Terminal, spec: TmuxTarget, session_id: str) -> None:
        """Start the session's program where it has no terminal yet."""
        try:
            await terminal.look()
        except NoSuchTerminal:
            await terminal.start(spec.start, cwd=spec.cwd, session_id=session_id)
            pane = await terminal.look()
            await program_began(pane.tty, pane.program_id, seconds=_START_SECONDS)
            if self._adopted is not None:
                await self._adopted(session_id)

    async def _type(self, terminal: Terminal, spec: TmuxTarget, message: InboundMessage, *, interrupt: bool) -> Outcome:
        mark = mark_of(message)
        pane = await terminal.look()
        if pane.done == mark:
            return Delivered()
        pane.check()
        if other := pane.left_over(mark):
            # It gets the Enter that it missed, or the two would become one.
            await terminal.enter(pane, other)
            await asyncio.sleep(self._pause_seconds)
            pane = await terminal.look()
            pane.check()
            if pane.left_over(mark):
                return Retry("Another message stands in the tmux pane without its Enter.")
        if not pane.awaits_enter(mark):
            await program_began(pane.tty, pane.program_id)
            if interrupt and pane.interrupted != mark:
                await terminal.interrupt(pane, mark)
                await asyncio.sleep(_AFTER_INTERRUPT * bool(self._pause_seconds))
            await self._paste(terminal, pane, spec, message)
            await asyncio.sleep(self._pause_seconds)
        if await terminal.enter(pane, mark):
            return Delivered()
        pane = await terminal.look()
        if pane.done == mark:
            return Delivered()
        pane.check()
        return Retry("The program in the tmux pane changed before the Enter.")

    async def _paste(self, terminal: Terminal, pane: Pane, spec: TmuxTarget, message: InboundMessage) -> None:
        if spec.paste == "bracketed" and pane.brackets == "0":
            raise TmuxTrouble("The program in the tmux pane has not turned bracketed paste on.")
        single_line = spec.paste == "single-line" or (spec.paste == "auto" and pane.brackets == "0")
        text = typed(message, envelope=spec.envelope, single_line=single_line)
        if await asyncio.to_thread(would_be_cut, pane.tty, text):
            raise TmuxTrouble(
                f"The program in the tmux pane reads by lines, of which a terminal keeps {LONGEST_LINE} bytes."
            )
        if not await terminal.paste(pane, text=text, mark=mark_of(message)):
            raise TmuxTrouble("The tmux pane changed while the message was being typed.")


def _make_folder(folder: Path) -> None:
    """Where the sockets of a tmux server that nobody has started yet will lie."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
