"""What our Telegram bot is called: people in groups name the bot that they mean."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

from pillarbox.conversations.drafts import Desk
from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.judging import read_object
from pillarbox.outbound.provider import Request

_CALL_SECONDS = 2.0
_ASK_AGAIN_SECONDS = 60.0


class TelegramBotName:
    """Asks Telegram for the bot's name when it is first needed; whoever needs it waits two seconds at most."""

    def __init__(self, client: Client, desk: Desk, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._desk = desk
        self._monotonic = monotonic
        self._asking = asyncio.Lock()
        self._ask_at = float("-inf")
        self._name: str | None = None

    async def get(self) -> str | None:
        """The name without its `@`, or None while it is not known."""
        async with self._asking:
            if self._name is None and self._monotonic() >= self._ask_at:
                self._name = await self._ask()
                self._ask_at = self._monotonic() + _ASK_AGAIN_SECONDS
            return self._name

    async def _ask(self) -> str | None:
        url = f"{self._desk.base_url}/bot{quote(self._desk.token, safe=':')}/getMe"
        try:
            answer = await self._client.fetch(Request("GET", url, {}, b""), deadline=_CALL_SECONDS, guarded=False)
        except (NotSent, Unanswered):
            return None
        result = read_object(answer.body).get("result")
        name = result.get("username") if isinstance(result, dict) else None
        return name if answer.status == 200 and isinstance(name, str) and name else None
