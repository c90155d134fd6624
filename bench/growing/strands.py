"""Inbound and hooks, which both keep a strand for each session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.growing.copying import FAR_AWAY, Copier
from bench.growing.live import AT_ONCE, Live, Table
from pillarbox import Pillarbox
from pillarbox.settings import load_settings

PYTHON = {"kind": "python", "name": "nothing"}
CRITICAL = "agent_stop"


@asynccontextmanager
async def box_on(url: str) -> AsyncIterator[Pillarbox]:
    """A box that delivers to nothing."""
    numbers = {"concurrency": AT_ONCE}
    settings = load_settings(environ={}, inbound=numbers, hooks=numbers)
    async with Pillarbox.open(url, settings=settings) as box:

        @box.inbound.target("nothing")
        async def take(message: object) -> None:
            pass

        @box.hooks.on()
        async def hear(event: object) -> None:
            pass

        yield box


@dataclass(frozen=True, slots=True)
class StrandPipe:
    """Which of the two, by its tables and by the name of the column that says when a row is tried again."""

    name: str
    rows: str
    strands: str
    retried: str
    keys: str = "sessions"

    @asynccontextmanager
    async def opened(self, url: str, keys: int) -> AsyncIterator[Live]:
        async with box_on(url) as box:
            drain = box.inbound.drain if self.name == "inbound" else box.hooks.drain
            yield Live(lambda n: self._put(box, f"s{n % keys}"), drain.step)

    async def make(self, url: str, table: Table) -> None:
        """Three sessions are real: one whose row was delivered, one whose row waits, and one that has never had any."""
        async with box_on(url) as box:
            for session in ("ended", "waiting", "s0"):
                await box.sessions.open(session_id=session, target=PYTHON)
            await self._put(box, "ended")
            await (box.inbound.drain if self.name == "inbound" else box.hooks.drain).step()
            await self._put(box, "waiting")
        await asyncio.to_thread(self._fill, url, table)

    def _fill(self, url: str, table: Table) -> None:
        with Copier(url) as copier:
            self._open_sessions(copier, "s", table.keys)
            each = -(-table.delivered // table.keys)
            self._copy_rows(copier, "ended", table.delivered, table.keys, after=0)
            self._copy_rows(copier, "waiting", table.pending, table.keys, after=each)
            if table.pending:
                self._set_heads(copier, each, table)
            elif each:
                copier.execute(f"UPDATE {self.strands} SET next_seq = {each + 1} WHERE session_id LIKE 's%'")
            self._schedule(copier, table.scheduled)
            for session in ("ended", "waiting"):
                for name in (self.rows, self.strands, "sessions"):
                    copier.execute(f"DELETE FROM {name} WHERE session_id = '{session}'")

    def _open_sessions(self, copier: Copier, prefix: str, count: int) -> None:
        name = f"'{prefix}' || (n - 1)"
        copier.execute(f"DELETE FROM {self.strands} WHERE session_id = 's0'")
        copier.execute("DELETE FROM sessions WHERE session_id = 's0'")
        copier.copy("sessions", "session_id = 'ended'", count, session_id=name)
        copier.copy(self.strands, "session_id = 'ended'", count, session_id=name, next_seq="1", token="0")

    def _copy_rows(self, copier: Copier, like: str, count: int, keys: int, *, after: int) -> None:
        place = {"session_id": f"'s' || ((n - 1) % {keys})", "seq": f"{after} + (n - 1) / {keys} + 1"}
        copier.copy(self.rows, f"session_id = '{like}'", count, **place)

    def _set_heads(self, copier: Copier, after: int, table: Table) -> None:
        """As the enqueue of so many would have left the strands."""
        each = -(-table.pending // table.keys)
        due = f"(SELECT w.due_at FROM {self.strands} w WHERE w.session_id = 'waiting')"
        copier.execute(
            f"UPDATE {self.strands} SET head_seq = {after + 1}, open_count = {each}, next_seq = {after + each + 1}, "
            f"due_at = {due} WHERE session_id LIKE 's%'"
        )

    def _schedule(self, copier: Copier, count: int) -> None:
        """Sessions whose first row failed and is tried again in many years."""
        name = "'later' || n"
        copier.copy("sessions", "session_id = 'waiting'", count, session_id=name)
        copier.copy(self.strands, "session_id = 'waiting'", count, session_id=name, due_at=f"'{FAR_AWAY}'", failing="1")
        again = {self.retried: f"'{FAR_AWAY}'"}
        copier.copy(self.rows, "session_id = 'waiting'", count, session_id=name, status="'failed'", **again)

    async def _put(self, box: Pillarbox, session: str) -> None:
        if self.name == "inbound":
            await box.inbound.enqueue(session_id=session, origin="bench", content="hello world")
        else:
            await box.hooks.post(session, CRITICAL, {"text": "hello world"})


INBOUND = StrandPipe("inbound", "inbound_queue", "inbound_strand", "next_retry_at")
HOOKS = StrandPipe("hooks", "hook_outbox", "hook_strand", "next_attempt_at")
