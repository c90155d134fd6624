"""A chat without a terminal: lines of stdin are messages, the agent's words are printed, and nothing else is."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from pillarbox.cli.conversation import Heard, visible
from pillarbox.cli.output import show_json
from pillarbox.errors import InvalidInput

if TYPE_CHECKING:
    from datetime import datetime

    from pillarbox.cli.conversation import Conversation

_LOOK_SECONDS = 0.2
_MOST_LINES_AHEAD = 100
_LAST_WORDS_SECONDS = 5.0


async def exchange(conversation: Conversation, actor_name: str | None, *, wait: float, json: bool) -> None:
    """Post every line, print every reply, and end when the agent has answered or the wait is over."""
    said: list[dict[str, Any]] = []
    replies: list[Heard] = []
    lines, end = _Lines(), _End(conversation, wait)
    while True:
        while (line := lines.next()) is not None:
            before = conversation.now()
            said.append(await _take(conversation, line, actor_name, quiet=json))
            if said[-1]["id"] is not None:
                end.said(before)
        ended = lines.ended
        for heard in await conversation.news():
            if heard.kind == "reply":
                end.answered = True
                replies.append(heard)
                if not json:
                    click.echo(visible(heard.text))
        if ended and (not said or await end.has_come()):
            break
        await asyncio.sleep(_LOOK_SECONDS)
    if json:
        show_json({"said": said, "replies": [{"text": each.text, "at": each.at} for each in replies]})


class _End:
    """When nothing more is to be expected: all is delivered, the turn is over and its words have come, or time is up."""

    def __init__(self, conversation: Conversation, wait: float) -> None:
        self._conversation = conversation
        self._wait = wait
        self._since = conversation.now()
        self._last: float | None = None
        self._over_at: float | None = None
        self.answered = False

    def said(self, at: datetime) -> None:
        """A message was handed in: an answer to it is yet to come."""
        self._since = at
        self._over_at = None
        self.answered = False

    async def has_come(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._last = now if self._last is None else self._last
        if now - self._last >= self._wait:
            return True
        await self._conversation.status()
        if self._conversation.open or not await self._conversation.turn_is_over(self._since):
            return False
        self._over_at = now if self._over_at is None else self._over_at
        # The words of a turn are stored a moment after its end.
        return self.answered or now - self._over_at >= _LAST_WORDS_SECONDS


async def _take(conversation: Conversation, line: str, actor_name: str | None, *, quiet: bool) -> dict[str, Any]:
    answer = await conversation.obey(line)
    if answer is None:
        return {"id": await conversation.say(line, actor_name=actor_name), "text": line}
    if not quiet:
        click.echo(visible(answer))
    return {"id": None, "text": line, "answer": answer}


class _Lines:
    """The lines of stdin, read by a thread so that replies are printed meanwhile; empty ones say nothing."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._ended = False
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def ended(self) -> bool:
        with self._changed:
            return self._ended and not self._lines

    def next(self) -> str | None:
        """The next line that came, if one did."""
        with self._changed:
            if not self._lines:
                return None
            line = self._lines.pop(0)
            self._changed.notify_all()
        try:
            return line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InvalidInput("text", "must be UTF-8.") from None

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            with self._changed:
                self._changed.wait_for(lambda: len(self._lines) < _MOST_LINES_AHEAD)
                if line.strip():
                    self._lines.append(line)
        with self._changed:
            self._ended = True
