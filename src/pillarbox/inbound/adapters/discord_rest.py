"""The little of Discord's REST API that reading needs: one request at a time, within the limits its answers state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pillarbox.clock import Clock
from pillarbox.inbound.adapters.documents import NotJson, items_at, number_at, read_document
from pillarbox.posting import trouble

# aiohttp takes most of a second to import on a busy machine, which a process without Discord must not pay.
if TYPE_CHECKING:
    from aiohttp import ClientSession

AT_ONCE = 100
_SECONDS_TO_ANSWER = 30.0
_LARGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_WAIT = 3600.0


class Refused(Exception):
    """Discord did not answer as hoped; the text is ours. After `wait` seconds it may."""

    def __init__(self, why: str, *, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class Gone(Exception):
    """The channel is not there any more."""


class Barred(Exception):
    """The bot may not read the channel."""


class DiscordRest:
    """Reads channels and their messages; a limit that is used up is waited for before the next question."""

    def __init__(self, client: ClientSession, *, base_url: str, bot_token: str, clock: Clock) -> None:
        self._client = client
        self._base_url = base_url
        self._headers = {"Authorization": f"Bot {bot_token}", "User-Agent": "DiscordBot (pillarbox, 1)"}
        self._clock = clock
        self._free_at = 0.0

    async def messages_after(self, channel: str, position: int) -> list[Any]:
        """Up to a hundred messages after this one, the oldest first."""
        found = await self._get(f"/channels/{channel}/messages?after={position}&limit={AT_ONCE}")
        return list(reversed(items_at({"items": found}, "items")))

    async def channel(self, channel: str) -> Any:
        return await self._get(f"/channels/{channel}")

    async def _get(self, path: str) -> Any:
        from aiohttp import ClientError, ClientTimeout

        if (early := self._free_at - self._clock.monotonic()) > 0:
            await asyncio.sleep(early)
        try:
            async with self._client.get(
                f"{self._base_url}{path}",
                headers=self._headers,
                allow_redirects=False,
                timeout=ClientTimeout(total=_SECONDS_TO_ANSWER),
            ) as response:
                if response.headers.get("X-RateLimit-Remaining") == "0":
                    self._pause(_seconds(response.headers.get("X-RateLimit-Reset-After")) or 0.0)
                body = bytearray()
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > _LARGEST_ANSWER:
                        raise Refused("Discord's answer is larger than any it can give.")
                return self._read(response.status, response.headers.get("Retry-After"), bytes(body))
        except TimeoutError:
            raise Refused("Discord did not answer in time.") from None
        except (ClientError, OSError) as error:
            raise Refused(trouble(error, "Discord API")) from None

    def _read(self, status: int, retry_after: str | None, body: bytes) -> Any:
        match status:
            case 200:
                try:
                    return read_document(body)
                except NotJson:
                    raise Refused("Discord answered without JSON.") from None
            case 403:
                raise Barred
            case 404:
                raise Gone
            case 429:
                wait = _seconds(retry_after) or _wait_in(body)
                self._pause(wait or 0.0)
                raise Refused("Discord asks for a pause.", wait=wait)
            case 401:
                raise Refused("Discord does not know this bot; check adapters.discord.bot_token and base_url.")
            case _:
                raise Refused(f"Discord answered HTTP {status}.")

    def _pause(self, seconds: float) -> None:
        self._free_at = max(self._free_at, self._clock.monotonic() + min(seconds, _LONGEST_WAIT))


def _seconds(text: str | None) -> float | None:
    """A number of seconds as a header states it, if it does."""
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return min(seconds, _LONGEST_WAIT) if seconds >= 0 else None


def _wait_in(body: bytes) -> float | None:
    try:
        wait = number_at(read_document(body), "retry_after")
    except NotJson:
        return None
    return None if wait is None or wait < 0 else min(float(wait), _LONGEST_WAIT)
