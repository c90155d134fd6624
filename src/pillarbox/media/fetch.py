"""Asking each platform for a file, as it documents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from pillarbox.media.model import Gone, MediaPolicy, NotNow, Platform, Reference
from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.destinations import Blocked, origin_of
from pillarbox.outbound.provider import Request

_PASSING = frozenset({401, 403, 408, 409, 425, 429})
_EXPIRED = frozenset({401, 403, 404, 410})


class Fetcher:
    """Gets files from the platforms that are set up; bounded in time and size, and guarded wherever a URL was told to us."""

    def __init__(self, client: Client, platforms: Mapping[str, Platform], policy: MediaPolicy) -> None:
        self._client = client
        self._platforms = platforms
        self._policy = policy

    async def fetch(self, wanted: Reference) -> bytes:
        """The content of a file; raises `Gone` or `NotNow`."""
        if wanted.size is not None and wanted.size > self._policy.max_bytes:
            raise Gone(_too_large(self._policy.max_bytes))
        platform = self._platforms.get(wanted.origin)
        try:
            async with asyncio.timeout(self._policy.fetch_timeout):
                match wanted.origin:
                    case "telegram":
                        return await self._from_telegram(wanted, _with_token(platform, wanted.origin))
                    case "whatsapp":
                        return await self._from_whatsapp(wanted, _with_token(platform, wanted.origin))
                    case "slack":
                        return await self._from_slack(wanted, _with_token(platform, wanted.origin))
                    case "discord":
                        return await self._from_discord(wanted, platform)
                    case _ if wanted.url is not None:
                        return await self._download(wanted.url, platform)
        except TimeoutError:
            raise NotNow(f"The file was not fetched within {self._policy.fetch_timeout:g} s.") from None
        raise Gone("nothing says where it is")

    async def _from_telegram(self, wanted: Reference, platform: Platform) -> bytes:
        """`getFile` tells a path that is good for an hour; https://core.telegram.org/bots/api#getfile"""
        token = quote(platform.token or "", safe=":")
        url = f"{platform.base_url}/bot{token}/getFile?file_id={quote(wanted.file_id or '', safe='')}"
        status, answer = await self._ask(url, {})
        path = answer.get("result", {}).get("file_path") if isinstance(answer.get("result"), dict) else None
        if status != 200 or not isinstance(path, str):
            raise _refusal("Telegram", status, gone=status == 400)
        return await self._own(f"{platform.base_url}/file/bot{token}/{quote(path)}")

    async def _from_whatsapp(self, wanted: Reference, platform: Platform) -> bytes:
        """A media id tells a URL that is good for five minutes, to be asked with the same token."""
        headers = {"authorization": f"Bearer {platform.token}"}
        status, answer = await self._ask(f"{platform.base_url}/{quote(wanted.file_id or '', safe='')}", headers)
        url = answer.get("url")
        if status != 200 or not isinstance(url, str):
            raise _refusal("WhatsApp", status, gone=status in (400, 404))
        return await self._download(url, platform, headers)

    async def _from_slack(self, wanted: Reference, platform: Platform) -> bytes:
        """A private URL is asked with the app's token, which goes nowhere but to Slack."""
        host = (urlsplit(wanted.url or "").hostname or "").lower()
        ours = host == "slack.com" or host.endswith(".slack.com") or _is_among(wanted.url, platform.trusted)
        if wanted.url is None or not ours:
            raise Gone("it does not lie at Slack")
        content = await self._download(wanted.url, platform, {"authorization": f"Bearer {platform.token}"})
        if content[:15].lower().startswith(b"<!doctype html") and "html" not in (wanted.mime or ""):
            # What Slack shows to somebody who may not have the file is a page to log in, with HTTP 200.
            raise NotNow("Slack does not give the file to the app; it needs the permission files:read.")
        return content

    async def _from_discord(self, wanted: Reference, platform: Platform | None) -> bytes:
        """A URL is signed and expires after a day; the message itself then tells a new one."""
        if wanted.url is None:
            raise Gone("nothing says where it is")
        try:
            return await self._download(wanted.url, platform, expires=True)
        except Expired:
            if platform is None or platform.token is None:
                raise Gone("its address has expired") from None
        return await self._download(await self._fresh_url(wanted, platform), platform)

    async def _fresh_url(self, wanted: Reference, platform: Platform) -> str:
        channel, message = quote(wanted.channel_id or "", safe=""), quote(wanted.message_id or "", safe="")
        headers = {"authorization": f"Bot {platform.token}", "user-agent": "DiscordBot (pillarbox, 1)"}
        status, answer = await self._ask(f"{platform.base_url}/channels/{channel}/messages/{message}", headers)
        files = answer.get("attachments") if status == 200 else None
        for file in files if isinstance(files, list) else ():
            if isinstance(file, dict) and file.get("id") == wanted.file_id and isinstance(file.get("url"), str):
                return str(file["url"])
        raise _refusal("Discord", status, gone=status in (200, 404))

    async def _ask(self, url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        """A question to a platform's API, which lies where the operator says."""
        try:
            response = await self._client.fetch(
                Request("GET", url, headers), deadline=self._policy.fetch_timeout, guarded=False
            )
        except (NotSent, Unanswered) as fault:
            raise NotNow(str(fault)) from None
        try:
            answer = msgspec.json.decode(response.body)
        except (ValueError, RecursionError):
            answer = None
        return response.status, answer if isinstance(answer, dict) else {}

    async def _own(self, url: str) -> bytes:
        return await self._get(url, {}, guarded=False, trusted=frozenset())

    async def _download(
        self,
        url: str,
        platform: Platform | None,
        headers: Mapping[str, str] | None = None,
        *,
        expires: bool = False,
    ) -> bytes:
        trusted = platform.trusted if platform is not None else frozenset()
        return await self._get(url, headers or {}, guarded=True, trusted=trusted, expires=expires)

    async def _get(
        self, url: str, headers: Mapping[str, str], *, guarded: bool, trusted: frozenset[str], expires: bool = False
    ) -> bytes:
        most, deadline = self._policy.max_bytes, self._policy.fetch_timeout
        try:
            answer = await self._client.download(
                url, most=most + 1, deadline=deadline, trusted=trusted, headers=headers, guarded=guarded
            )
        except Blocked as fault:
            raise Gone(str(fault)) from None
        except (NotSent, Unanswered) as fault:
            raise NotNow(str(fault)) from None
        if expires and answer.status in _EXPIRED:
            raise Expired
        if answer.status != 200:
            raise _refusal("The server", answer.status, gone=answer.status not in _PASSING and answer.status < 500)
        if len(answer.body) > most:
            raise Gone(_too_large(most))
        if not answer.complete:
            raise NotNow("The file broke off while it was fetched.")
        return bytes(answer.body)


class Expired(Exception):
    """The address was good once."""


def _with_token(platform: Platform | None, origin: str) -> Platform:
    if platform is None or platform.token is None:
        name = "access_token" if origin == "whatsapp" else "bot_token"
        raise Gone(f"adapters.{origin}.{name} is not set")
    return platform


def _is_among(url: str | None, trusted: frozenset[str]) -> bool:
    try:
        return url is not None and origin_of(url) in {origin_of(each) for each in trusted}
    except ValueError:
        return False


def _refusal(who: str, status: int, *, gone: bool) -> Gone | NotNow:
    said = f"{who} answered HTTP {status} when asked for the file"
    return Gone(said) if gone else NotNow(f"{said}.")


def _too_large(most: int) -> str:
    return f"larger than {most / 1_000_000:.3g} MB"
