"""What an agent is doing, shown in its chats while a turn runs: one message that is changed, and gone when the turn is over.

Showing is best effort: what fails is left out, and the next change makes up for it. Taking away is not: what stands in a chat is
on disk, and is removed, or made to say that it is over, by whichever process lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from pillarbox.conversations import leftovers
from pillarbox.conversations.drafts import Desk, draft_in, fate, hold_in, place_in, show
from pillarbox.conversations.leftovers import Standing
from pillarbox.conversations.lines import queries
from pillarbox.conversations.removals import Removals
from pillarbox.conversations.ways import way_now
from pillarbox.engine import Bell
from pillarbox.errors import Unavailable
from pillarbox.hooks.model import HookEvent
from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.provider import Request, Response
from pillarbox.storage import Database, Step
from pillarbox.telemetry import brief, logger

_log = logger(__name__)

_MOST_TOOLS = 5
_MOST_SESSIONS = 1000
_CALL_SECONDS = 15.0
_LOOK_SECONDS = 0.5
_RENEW_SECONDS = leftovers.LEASE.total_seconds() / 3
_AFTER_TROUBLE = 2.0
# An event is told to us a moment before it takes effect on the agent's state.
_STATE_SECONDS = 10.0

Chat = tuple[str, str]


@dataclass(slots=True)
class Turn:
    """What is known of a session's turn in this process; `prompt_id` is the event that began it, `last` when something was done.

    Its end may be told to another process: an agent that was at work and is idle by its state has ended its turn, and so has
    one that was given a later prompt.
    """

    prompt_id: int
    since: float
    last: float
    is_known: bool = False
    was_at_work: bool = False
    tools: list[str] = field(default_factory=list)
    steps: int = 0
    over: bool = False

    def look(self, state: str | None, last_prompt: int, now: float, silent_at_most: float) -> None:
        self.was_at_work = self.was_at_work or state == "working"
        idle = state == "idle" and (self.was_at_work or now - self.since > _STATE_SECONDS)
        self.over = self.over or idle or last_prompt > self.prompt_id or now - self.last > silent_at_most

    @property
    def text(self) -> str:
        shown = ", ".join(self.tools[-_MOST_TOOLS:])
        return f"Working: {self.steps} steps so far, the last ones {shown}." if shown else "Working…"


@dataclass(slots=True)
class Shown:
    """A draft as a chat shows it."""

    prompt_id: int
    standing: Standing
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
        holder: str,
        silent_at_most: float = 1800.0,
        monotonic: Callable[[], float],
    ) -> None:
        self._database = database
        self._client = client
        self._desks = desks
        self._every = every
        self._holder = holder
        self._silent_at_most = silent_at_most
        self._monotonic = monotonic
        self._turns: dict[str, Turn] = {}
        self._shown: dict[tuple[str, Chat], Shown] = {}
        self._free_at: dict[Chat, float] = {}
        self._renewed = monotonic()
        self._removals = Removals(database, desks, holder=holder, ask=self._ask, monotonic=monotonic)
        self.bell = Bell()

    async def note(self, event: HookEvent) -> None:
        """An agent has done something. A person's message breaks off what was shown: the next turn has its own."""
        now = self._monotonic()
        match event.event_type:
            case "user_prompt_submit":
                before = self._turns.get(event.session_id)
                if before is None or before.prompt_id < event.id:
                    self._turns.pop(event.session_id, None)
                    if len(self._turns) < _MOST_SESSIONS:
                        self._turns[event.session_id] = Turn(event.id, now, now)
            case "tool_use" if turn := self._turns.get(event.session_id):
                name = event.payload.get("tool_name")
                turn.steps, turn.last = turn.steps + 1, now
                turn.tools = [*turn.tools[-_MOST_TOOLS:], name] if isinstance(name, str) else turn.tools
            case "agent_stop" | "error" if turn := self._turns.get(event.session_id):
                turn.over = True
        self.bell.ring()

    async def run(self) -> None:
        """Show and take away until cancelled."""
        said = ""
        while True:
            self.bell.clear()
            try:
                await self.step()
                said, wait = "", _LOOK_SECONDS
            except Exception as error:
                why = brief(error) if isinstance(error, Unavailable) else type(error).__name__
                if why != said:
                    _log.warning("previews have to wait", error=why)
                said, wait = why, _AFTER_TROUBLE
            await self.bell.wait(wait)

    async def step(self) -> None:
        """Take away what is over, wherever it was shown, and bring every chat up to date that may be written to now."""
        if self._shown or self._removals.waiting:
            await self._keep()
        for session_id, turn in list(self._turns.items()):
            if not turn.is_known:
                await self._database.write(partial(_show_prompt, session_id, turn.prompt_id))
                turn.is_known = True
            chats, state, last_prompt = await self._database.read(partial(_chats, session_id))
            turn.look(state, last_prompt, self._monotonic(), self._silent_at_most)
            self._break_off(session_id, turn, chats)
            for chat, is_being_told in chats.items():
                if chat[0] in self._desks and not is_being_told and not turn.over:
                    await self._bring(session_id, turn, chat)
            if turn.over or not chats:
                self._turns.pop(session_id, None)
        for key in [key for key in self._shown if key[0] not in self._turns]:
            self._removals.add(self._shown.pop(key).standing)
        await self._removals.step(self._free_at)

    def _break_off(self, session_id: str, turn: Turn, chats: Mapping[Chat, bool]) -> None:
        """Hand over for removal what is over, or stands where the session has no chat any more."""
        for key, shown in list(self._shown.items()):
            ended = turn.over or shown.prompt_id != turn.prompt_id or key[1] not in chats
            if key[0] == session_id and ended:
                del self._shown[key]
                self._removals.add(shown.standing)

    async def _bring(self, session_id: str, turn: Turn, chat: Chat) -> None:
        shown, now, text = self._shown.get((session_id, chat)), self._monotonic(), turn.text
        if now < self._free_at.get(chat, 0.0) or self._removals.has(chat) or (shown is not None and shown.text == text):
            return
        self._free_at[chat] = now + self._every
        if shown is not None:
            await self._change(session_id, shown, text)
            return
        way = await self._database.read(partial(way_now, session_id, *chat))
        place = place_in(chat[0], way)
        answer = await self._ask(chat, show(self._desks[chat[0]], place or chat[1], text, None, way))
        draft = draft_in(chat[0], answer) if answer is not None else None
        if draft is not None:
            standing = Standing(*chat, draft, session_id, place)
            self._shown[session_id, chat] = Shown(turn.prompt_id, standing, text)
            work = partial(leftovers.note, standing, self._holder, self._database.clock.now())
            await self._database.write(work)

    async def _change(self, session_id: str, shown: Shown, text: str) -> None:
        """Edit what is shown; one that cannot be edited is taken away, and the next is a new one."""
        standing = shown.standing
        desk = self._desks[standing.origin]
        answer = await self._ask(standing.chat, show(desk, standing.where, text, standing.draft))
        match "again" if answer is None else fate(standing.origin, answer):
            case "done":
                shown.text = text
            case "gone" | "refused":
                del self._shown[session_id, standing.chat]
                self._removals.add(standing)

    async def _keep(self) -> None:
        now = self._monotonic()
        if now - self._renewed >= _RENEW_SECONDS:
            self._renewed = now
            await self._database.write(partial(leftovers.renew, self._holder, self._database.clock.now()))

    async def _ask(self, chat: Chat, request: Request) -> Response | None:
        try:
            answer = await self._client.fetch(request, deadline=_CALL_SECONDS, guarded=False)
        except (NotSent, Unanswered):
            return None
        if (hold := hold_in(answer)) is not None:
            self._free_at[chat] = self._monotonic() + hold
        return answer


def _chats(session_id: str) -> Step[tuple[dict[Chat, bool], str | None, int]]:
    """The chats of an open session, whether each is being told something, its agent's state, and its last prompt."""
    rows = yield queries.chats_and_words(session_id=session_id)
    state, last_prompt = rows[0][3:5] if rows else (None, 0)
    return {(row[0], row[1]): bool(row[2]) for row in rows}, state, last_prompt


def _show_prompt(session_id: str, prompt_id: int) -> Step[None]:
    """Other processes leave off showing an earlier one."""
    yield queries.show_prompt(session_id=session_id, prompt_id=prompt_id)
