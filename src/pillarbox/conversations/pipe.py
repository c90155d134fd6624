"""The door of the way back: reads what agents say, keeps it, and queues it for the chats of their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pillarbox.conversations import guests, lines, telling
from pillarbox.conversations.lines import PANE, queries
from pillarbox.conversations.model import GUEST, LISTENER, Line, Source
from pillarbox.conversations.pane import PaneWatch
from pillarbox.conversations.policy import ConversationsPolicy
from pillarbox.conversations.tail import grown, read_over
from pillarbox.conversations.transcript import Said
from pillarbox.engine import Bell, Chore
from pillarbox.errors import Unavailable
from pillarbox.inbound.adapter import Received
from pillarbox.outbound.pipe import Outbound
from pillarbox.sessions import Session, Sessions
from pillarbox.storage import Database, Row, Step
from pillarbox.telemetry import brief, logger
from pillarbox.text import check_text

_log = logger(__name__)

_MOST_FOLLOWED = 1000
_MOST_CHATS = 200
_MOST_LOOKS = 8
_LIST_EVERY = 1.0
_PRUNE_EVERY = 60.0
_PRUNED_AT_ONCE = 500
_LONGEST_ANSWER = 3000
_AFTER_TROUBLE = 2.0


class Conversations:
    """Follows agents of this node and tells chats what they say: complete, in order, also after a restart."""

    def __init__(
        self,
        database: Database,
        *,
        outbound: Outbound,
        sessions: Sessions,
        policy: ConversationsPolicy,
        node: str,
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._outbound = outbound
        self._policy = policy
        self._served_by = f"node:{node}"
        self._panes = PaneWatch(quiet=policy.quiet)
        self._looks = asyncio.Semaphore(_MOST_LOOKS)
        self._followed: list[Source] = []
        self._listed = float("-inf")
        self._stopped = False
        self.bell = Bell()
        self.after_reply: list[Callable[[str, str], None]] = []
        sessions.follow(self)

    async def replies(self, session_id: str, *, after: int = 0, limit: int = 100) -> list[Line]:
        """What was said in a session, in order, from the line after that one."""
        found = await self._database.read(partial(lines.page, session_id, after, limit))
        return [_shown(line, self._clock.shown(line.said_at)) for line in found]

    async def answer(self, session_id: str, origin: str, channel_id: str, text: str) -> None:
        """Tell one chat something of our own, behind what it is being told."""
        check_text("text", text, most=_LONGEST_ANSWER, least=1)
        now = self._clock.now()
        await self._database.write(partial(lines.answer, session_id, origin, channel_id, text, now))
        self.bell.ring()

    async def join(self, received: Received, session_id: str) -> None:
        """Let a chat that has written to the default session belong to it, so that it is told what the settings say."""
        chat = (received.origin, received.channel_id)
        if received.origin not in self._policy.origins or session_id != self._policy.default_session:
            return
        if self._policy.default_session_tells == "nothing":
            if await self._database.read(partial(guests.has_joined, session_id, *chat)):
                await self._database.write(partial(guests.leave, session_id, *chat))
            return
        joined = GUEST if self._policy.default_session_tells == "answers" else LISTENER
        if await self._database.read(partial(lines.has_chat, session_id, *chat, joined)):
            return
        if not await self._database.write(partial(lines.join, session_id, *chat, joined)):
            _log.warning(
                "a chat is not answered: its session has as many chats as one can have",
                session_id=session_id,
                origin=received.origin,
            )

    async def run(self) -> None:
        """Look and tell until `stop`, or until this is cancelled."""
        self._stopped = False
        said = ""
        while not self._stopped:
            self.bell.clear()
            try:
                busy = await self.step()
                said, wait = "", 0.0 if busy else self._policy.look
            except Exception as error:
                why = brief(error) if isinstance(error, Unavailable) else type(error).__name__
                if why != said:
                    _log.warning("replies to chats have to wait", error=why)
                said, wait = why, _AFTER_TROUBLE
            if wait:
                await self.bell.wait(wait)

    def stop(self) -> None:
        self._stopped = True
        self.bell.ring()

    async def step(self) -> int:
        """One look at everything: hear people, read on, queue what chats are to be told; answers how much was done."""
        done = 0
        for session_id in await self._database.read(_unheard):
            work = partial(lines.hear, session_id, self._clock.now())
            done += await self._alone(session_id, self._database.write(work))
        sources = await self._sources()
        spoke = set()
        for source in await asyncio.to_thread(grown, sources):
            read = await self._alone(source.session_id, self._read_on(source))
            done += read
            spoke |= {source.session_id} if read else set()
        for source in sources:
            if source.over_since is not None and source.session_id not in spoke:
                await self._alone(source.session_id, self._end(source, source.over_since))
        done += await self._watch_panes()
        for chat in await self._database.read(partial(telling.due_chats, _MOST_CHATS)):
            done += await self._alone(chat[0], self._tell(*chat))
        return done

    async def _alone(self, session_id: str, work: Awaitable[int]) -> int:
        """Let one session's trouble be its own; a database that is away is everybody's."""
        try:
            return await work
        except Unavailable:
            raise
        except Exception as error:
            _log.error(
                "a session's replies have to wait; this is a bug in Pillarbox",
                session_id=session_id,
                error=type(error).__name__,
            )
            return 0

    def chores(self) -> Sequence[Chore]:
        return [Chore("conversations.prune", _PRUNE_EVERY, self.prune)]

    async def prune(self) -> bool:
        """Delete some of what was told long ago; answers whether there may be more."""
        before = self._clock.now() - self._policy.retention

        def work() -> Step[list[Row]]:
            return (yield queries.prune(before=before, limit=_PRUNED_AT_ONCE))

        return len(await self._database.write(work)) == _PRUNED_AT_ONCE

    def opened(self, session: Session, now: datetime) -> Step[None]:
        yield from lines.agree_on_chats(session, self._policy.origins, watches_pane=_watches_pane(session))

    def changed(self, before: Session, session: Session, now: datetime) -> Step[None]:
        if (before.channels, before.target) != (session.channels, session.target):
            yield from lines.agree_on_chats(session, self._policy.origins, watches_pane=_watches_pane(session))

    def closed(self, session_id: str, now: datetime, reason: str | None) -> Step[int]:
        """What was said before a close is still read and told."""
        yield from lines.close(session_id)
        return 0

    def after_close(self, session_id: str, ended: int) -> None:
        self.look_again()

    def after_change(self, session_id: str) -> None:
        self.look_again()

    def look_again(self) -> None:
        """Find out anew, with the next step, whose words can be read, and how far they were."""
        self._listed = float("-inf")

    async def _sources(self) -> list[Source]:
        """Those whose words this node can read; who they are is looked up now and then, how far they were read each time."""
        moment = self._clock.monotonic()
        if moment - self._listed >= _LIST_EVERY:
            self._listed = moment
            left_since = self._clock.now() - self._policy.linger
            work = partial(lines.followed, self._served_by, _MOST_FOLLOWED, left_since=left_since)
            self._followed = await self._database.read(work)
        return list(self._followed)

    async def _end(self, source: Source, closed_at: datetime) -> int:
        """A session that was closed is left once its agent has had time for its last words, and they were read."""
        if closed_at + self._policy.linger <= self._clock.now():
            self.look_again()
            await self._database.write(partial(lines.end, source.session_id))
        return 0

    async def _read_on(self, source: Source) -> int:
        if source.read.source == PANE:
            return 0
        if source.path is None:
            return await self._take_summary(source)
        since = self._clock.shown(source.created_at).astimezone(UTC).isoformat(timespec="microseconds")
        reading = await asyncio.to_thread(read_over, source.path, source.read, since=since, left=source.before)
        if reading is None:
            return 0
        self.look_again()
        work = partial(lines.record, source, reading.said, reading.cursor, self._clock.now(), reading.left)
        return await self._database.write(work)

    async def _take_summary(self, source: Source) -> int:
        """Of an agent that writes no transcript, the last words of each turn, as its hook tells them."""
        if source.summary is None or source.summary_at is None:
            return 0
        at = source.summary_at.astimezone(UTC).isoformat(timespec="microseconds")
        if at <= (source.read.told_until or ""):
            return 0
        self.look_again()
        read = replace(source.read, told_until=at)
        said = [Said(source.summary, at)] if source.summary.strip() else []
        return await self._database.write(partial(lines.record, source, said, read, self._clock.now()))

    async def _watch_panes(self) -> int:
        watched = await self._database.read(partial(lines.watched_panes, self._served_by, _MOST_FOLLOWED))
        looks = (self._alone(source.session_id, self._watch(source, target)) for source, target in watched)
        return sum(await asyncio.gather(*looks))

    async def _watch(self, source: Source, target: dict[str, Any]) -> int:
        async with self._looks:
            seen = await self._panes.look(source, target, self._clock.monotonic())
        if seen is None:
            return 0
        said = [Said(seen.text, "")] if seen.text else []
        return await self._database.write(partial(lines.record, source, said, seen.cursor, self._clock.now()))

    async def _tell(self, session_id: str, origin: str, channel_id: str) -> int:
        work = partial(
            telling.tell,
            self._outbound,
            session_id,
            origin,
            channel_id,
            now=self._clock.now(),
            number=self._policy.phone_number_id,
            threaded=self._policy.threaded,
        )
        message_id = await self._database.write(work)
        if message_id is None:
            return 0
        self._outbound.bell.ring()
        self._database.ring()
        for tell in self.after_reply:
            tell(origin, channel_id)
        return 1


def _unheard() -> Step[list[str]]:
    return [row[0] for row in (yield queries.unheard(limit=_MOST_CHATS))]


def _watches_pane(session: Session) -> bool:
    return session.target.get("kind") == "tmux" and session.target.get("output") == PANE


def _shown(line: Line, at: datetime) -> Line:
    import msgspec

    return msgspec.structs.replace(line, said_at=at)
