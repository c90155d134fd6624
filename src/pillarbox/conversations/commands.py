"""What people can ask of their session's queue, in any chat: `/queue`, `/cancel`, `/help`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Literal

from pillarbox.conversations import lines
from pillarbox.conversations.lines import queries
from pillarbox.errors import NotFound
from pillarbox.inbound import Inbound, InboundMessage, strands
from pillarbox.inbound.adapter import Received
from pillarbox.inbound.reading import page, queue
from pillarbox.inbound.targets.tmux_text import clean
from pillarbox.storage import Database, Step

Command = Literal["queue", "cancel", "help"]

_MOST_SHOWN = 10
_MOST_CANCELED = 500
_EXCERPT = 60
_OPEN = ("pending", "failed", "processing")
_COMMAND = re.compile(r"/(\w+)(@\w+)?")
_HELP = "/queue shows what waits for the agent; /cancel gives up {}; anything else goes to the agent."


class Commands:
    """Obeys people; each command once, in one transaction with its answer."""

    def __init__(self, database: Database, inbound: Inbound, *, origins: frozenset[str]) -> None:
        self._database = database
        self._clock = database.clock
        self._inbound = inbound
        self._origins = origins

    async def obey(self, received: Received, session_id: str) -> bool:
        """Obey a message of a chat if it is a command, and queue the answer; False for anything that is for the agent."""
        command = command_in(received.content) if received.message_type == "text" else None
        if command is None or received.origin not in self._origins:
            return False
        outcome = await self._database.write(partial(self._obey, command, received, session_id))
        if outcome is None:
            return False
        self._inbound.after_acting(outcome)
        return True

    async def run(self, session_id: str, text: str) -> str | None:
        """The answer to somebody who sees the whole session, as in a terminal; None for anything that is for the agent."""
        command = command_in(text)
        if command is None:
            return None
        answer, canceled = await self._database.write(partial(self._act, command, session_id, None, None))
        self._inbound.after_acting(canceled)
        return answer

    def _obey(self, command: Command, received: Received, session_id: str) -> Step[Sequence[InboundMessage] | None]:
        chat = (received.origin, received.channel_id)
        known = {(row[0], row[1]) for row in (yield queries.chats(session_id=session_id))}
        if chat not in known:
            return None
        source_id = received.source_message_id
        if source_id is not None and (yield queries.answered(origin=received.origin, source_id=source_id)):
            return []
        answer, canceled = yield from self._act(command, session_id, chat, received.actor_id)
        yield from lines.answer(session_id, *chat, answer, self._clock.now(), source_id)
        return canceled

    def _act(
        self, command: Command, session_id: str, chat: tuple[str, str] | None, actor_id: str | None
    ) -> Step[tuple[str, list[InboundMessage]]]:
        match command:
            case "help":
                return _HELP.format("your own waiting messages" if chat else "all that waits in this session"), []
            case "queue":
                waiting = yield from _waiting(session_id, _MOST_SHOWN + 1)
                return shown(waiting, chat), []
            case "cancel":
                # Under the lock nothing of it is delivered before it is given up.
                yield from strands.lock({session_id})
                waiting = yield from _waiting(session_id, _MOST_CANCELED)
                mine = [m for m in waiting if _is_by(m, chat, actor_id) and m.status != "processing"]
                canceled = []
                for message in mine:
                    canceled.append((yield from self._inbound.expiring(message.id, self._clock.now())))
                return _counted(len(mine)), canceled


def command_in(text: str) -> Command | None:
    """The command that a text is, as it may be written in a group: `/queue@name_of_the_bot`."""
    found = _COMMAND.fullmatch(text.strip())
    match found and found[1].lower():
        case "queue":
            return "queue"
        case "cancel":
            return "cancel"
        case "help":
            return "help"
        case _:
            return None


def shown(waiting: Sequence[InboundMessage], chat: tuple[str, str] | None) -> str:
    """What waits, in words; what somebody said in another chat is not told here."""
    if not waiting:
        return "Nothing waits for the agent."
    rows = [_row(number, message, chat) for number, message in enumerate(waiting[:_MOST_SHOWN], 1)]
    more = ["…"] if len(waiting) > _MOST_SHOWN else []
    return "\n".join(["Waiting for the agent:", *rows, *more])


def _row(number: int, message: InboundMessage, chat: tuple[str, str] | None) -> str:
    text = " ".join(clean(message.content).split()) or f"({message.message_type})"
    said = text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"
    told = said if _is_of(message, chat) else f"a message of {message.origin}"
    state = {"processing": " (being delivered)", "failed": " (will be tried again)"}.get(message.status, "")
    return f"{number}. {told}{state}"


def _is_of(message: InboundMessage, chat: tuple[str, str] | None) -> bool:
    return chat is None or (message.origin, message.source_channel_id) == chat


def _is_by(message: InboundMessage, chat: tuple[str, str] | None, actor_id: str | None) -> bool:
    """Whether somebody may give a message up: in a chat its sender, elsewhere whoever sees the whole session."""
    return chat is None or (_is_of(message, chat) and message.actor_id == actor_id)


def _counted(number: int) -> str:
    if number == 0:
        return "You have nothing waiting."
    return "1 message was canceled." if number == 1 else f"{number} messages were canceled."


def _waiting(session_id: str, limit: int) -> Step[list[InboundMessage]]:
    try:
        state = yield from queue(session_id)
    except NotFound:
        return []
    if state.head is None:
        return []
    found = yield from page(session_id=session_id, status=None, limit=limit, after=state.head.seq - 1)
    return [message for message in found if message.status in _OPEN]
