"""What people can ask of their session's queue, in any chat: `/queue`, `/cancel`, `/help`."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from pillarbox.conversations import lines
from pillarbox.conversations.lines import queries
from pillarbox.conversations.ways import way_in
from pillarbox.errors import NotFound
from pillarbox.inbound import Inbound, InboundMessage, strands
from pillarbox.inbound.adapter import Received
from pillarbox.inbound.positions import Position, moving
from pillarbox.inbound.reading import page, queue
from pillarbox.inbound.targets.tmux_text import clean
from pillarbox.storage import Database, Step

Command = Literal["queue", "cancel", "help"]
BotName = Callable[[], Awaitable[str | None]]

_MOST_SHOWN = 10
_MOST_CANCELED = 500
_EXCERPT = 60
_OPEN = ("pending", "failed", "processing")
_COMMAND = re.compile(r"/(\w+)(?:@(\w+))?")
_HELP = "/queue shows what waits for the agent; /cancel gives up {}; anything else goes to the agent."


class Commands:
    """Obeys people; each command once, in one transaction with its answer.

    `bot_names` are what our bots are called on platforms where several may be in one chat.
    """

    def __init__(
        self,
        database: Database,
        inbound: Inbound,
        *,
        origins: frozenset[str],
        bot_names: Mapping[str, BotName] | None = None,
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._inbound = inbound
        self._origins = origins
        self._bot_names = bot_names or {}

    async def obey(self, received: Received, session_id: str, position: Position | None = None) -> bool:
        """Obey a message of a chat if it is a command, and queue the answer; False for anything that is for the agent.

        `position` is how far the chat's adapter has read with it.
        """
        if received.message_type != "text" or received.origin not in self._origins:
            return False
        command = await self._command_in(received)
        if command is None:
            return False
        outcome = await self._database.write(partial(self._obey, command, received, session_id, position))
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

    async def _command_in(self, received: Received) -> Command | None:
        """The command that a message is, if it names no bot or ours."""
        named = bot_named_in(received.content)
        ask = self._bot_names.get(received.origin)
        if named is None or ask is None or command_in(received.content, named) is None:
            return command_in(received.content)
        return command_in(received.content, await ask())

    def _obey(
        self, command: Command, received: Received, session_id: str, position: Position | None
    ) -> Step[Sequence[InboundMessage] | None]:
        chat = (received.origin, received.channel_id)
        known = {(row[0], row[1]) for row in (yield queries.chats(session_id=session_id))}
        # Where there is no open session yet, the message itself opens one, and is obeyed there.
        if chat not in known and not (yield queries.is_open(session_id=session_id)):
            return None
        source_id = received.source_message_id
        canceled: list[InboundMessage] = []
        if source_id is None or not (yield queries.answered(origin=received.origin, source_id=source_id)):
            answer, canceled = yield from self._act(command, session_id, chat, received.actor_id)
            way = json.dumps(way_in(received.origin, received.payload))
            yield from lines.answer(session_id, *chat, answer, self._clock.now(), source_id, way)
        yield from moving([] if position is None else [position])
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


def bot_named_in(text: str) -> str | None:
    """The bot that a command is meant for, as it may be written in a group: `/queue@name_of_the_bot`."""
    found = _COMMAND.fullmatch(text.strip())
    return found[2] if found else None


def command_in(text: str, bot: str | None = None) -> Command | None:
    """The command that a text is; one that names a bot is none unless that is ours."""
    found = _COMMAND.fullmatch(text.strip())
    if found and found[2] is not None and found[2].lower() != (bot or "").lower():
        return None
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
