"""What an agent is doing, shown in its chats while a turn runs: one message that is changed, and gone when the turn is over.

Nothing of it is kept: whatever fails is left out, and the next change makes up for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pillarbox.conversations.drafts import Desk, draft_in, hold_in, remove, show
from pillarbox.conversations.lines import queries
from pillarbox.engine import Bell
from pillarbox.hooks.model import HookEvent
from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.provider import Request, Response
from pillarbox.storage import Database, Step

_MOST_TOOLS = 5
_MOST_SESSIONS = 1000
_CALL_SECONDS = 15.0
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Turn:
    """What is known of a session's turn in this process; `begun` tells turns apart."""

    begun: int
    tools: list[str] = field(default_factory=list)
    steps: int = 0
    over: bool = False

    @property
    def text(self) -> str:
        shown = ", ".join(self.tools[-_MOST_TOOLS:])
        return f"Working: {self.steps} steps so far, the last ones {shown}." if shown else "Working…"


@dataclass(slots=True)
class Shown:
    """A draft as a chat shows it."""

    begun: int
    draft: str
    text: str


class Previews:
    """Shows turns in chats, each chat at its own pace; a chat that is being told something is left alone."""

    def __init__(
        self,
        database: Database,
        client: Client,
        desks: Mapping[str, Desk],
        *,
        every: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._database = database
        self._client = client
        self._desks = desks
        self._every = every
        self._monotonic = monotonic
        self._turns: dict[str, Turn] = {}
        self._shown: dict[tuple[str, str, str], Shown] = {}
        self._free_at: dict[tuple[str, str], float] = {}
        self.bell = Bell()

    async def note(self, event: HookEvent) -> None:
        """An agent has done something. A person's message breaks off what was shown: the next turn has its own."""
        match event.event_type:
            case "user_prompt_submit":
                before = self._turns.pop(event.session_id, None)
                if len(self._turns) < _MOST_SESSIONS:
                    self._turns[event.session_id] = Turn(before.begun + 1 if before else 1)
            case "tool_use" if turn := self._turns.get(event.session_id):
                name = event.payload.get("tool_name")
                turn.steps += 1
                turn.tools = [*turn.tools[-_MOST_TOOLS:], name] if isinstance(name, str) else turn.tools
            case "agent_stop" | "error" if turn := self._turns.get(event.session_id):
                turn.over = True
        self.bell.ring()

    async def run(self) -> None:
        """Show and take away until cancelled."""
        while True:
            self.bell.clear()
            with suppress(Exception):
                await self.step()
            await self.bell.wait(_LOOK_SECONDS)

    async def step(self) -> None:
        """Bring every chat up to date that may be written to now."""
        for session_id, turn in list(self._turns.items()):
            for origin, channel_id in await self._database.read(lambda s=session_id: _quiet_chats(s)):  # type: ignore[misc]
                if origin in self._desks:
                    await self._bring(turn, (session_id, origin, channel_id))
            if turn.over and not any(key[0] == session_id for key in self._shown):
                self._turns.pop(session_id, None)

    async def _bring(self, turn: Turn, key: tuple[str, str, str]) -> None:
        chat, shown, now = key[1:], self._shown.get(key), self._monotonic()
        if now < self._free_at.get(chat, 0.0):
            return
        if shown is not None and (turn.over or shown.begun != turn.begun):
            del self._shown[key]
            await self._ask(chat, remove(self._desks[chat[0]], chat[1], shown.draft))
            return
        if turn.over or (shown is not None and shown.text == turn.text):
            return
        self._free_at[chat] = now + self._every
        text = turn.text
        request = show(self._desks[chat[0]], chat[1], text, shown.draft if shown else None)
        answer = await self._ask(chat, request)
        draft = shown.draft if shown else draft_in(chat[0], answer) if answer is not None else None
        if draft is not None:
            self._shown[key] = Shown(turn.begun, draft, text)

    async def _ask(self, chat: tuple[str, str], request: Request) -> Response | None:
        try:
            answer = await self._client.fetch(request, deadline=_CALL_SECONDS, guarded=False)
        except (NotSent, Unanswered):
            return None
        if (hold := hold_in(answer)) is not None:
            self._free_at[chat] = self._monotonic() + hold
        return answer


def _quiet_chats(session_id: str) -> Step[list[tuple[str, str]]]:
    return [(row[0], row[1]) for row in (yield queries.quiet_chats(session_id=session_id))]
