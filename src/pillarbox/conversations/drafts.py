"""A message of ours that is shown for a while, changed, and taken away again: what each platform wants to be asked for that."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from pillarbox.outbound.judging import answered_at, read_object
from pillarbox.outbound.provider import Request, Response
from pillarbox.outbound.retry_after import seconds_to_wait

ORIGINS = frozenset({"telegram", "discord", "slack"})
"""Those whose messages can be changed; WhatsApp's cannot."""


class Desk(NamedTuple):
    """Where a platform is, and what opens it."""

    origin: str
    base_url: str
    token: str


def show(desk: Desk, channel_id: str, text: str, draft: str | None) -> Request:
    """Show a text in a chat, in place of the draft that stands there, if one does."""
    match desk.origin:
        case "telegram" if draft is None:
            return _post(desk, "sendMessage", {"chat_id": channel_id, "text": text, "disable_notification": True})
        case "telegram":
            return _post(desk, "editMessageText", {"chat_id": channel_id, "message_id": int(draft or 0), "text": text})
        case "slack" if draft is None:
            return _post(desk, "chat.postMessage", {"channel": channel_id, "text": _escaped(text)})
        case "slack":
            return _post(desk, "chat.update", {"channel": channel_id, "ts": draft, "text": _escaped(text)})
        case _:
            # Flag 12: nobody's telephone rings for it.
            body: dict[str, Any] = {"content": text, "allowed_mentions": {"parse": []}}
            body |= {} if draft else {"flags": 1 << 12}
            return _discord(desk, "PATCH" if draft else "POST", channel_id, draft, body)


def remove(desk: Desk, channel_id: str, draft: str) -> Request:
    """Take a draft away."""
    match desk.origin:
        case "telegram":
            return _post(desk, "deleteMessage", {"chat_id": channel_id, "message_id": int(draft)})
        case "slack":
            return _post(desk, "chat.delete", {"channel": channel_id, "ts": draft})
        case _:
            return _discord(desk, "DELETE", channel_id, draft, None)


def draft_in(origin: str, response: Response) -> str | None:
    """The name of the draft that an answer tells of, by which it is changed later."""
    answer = read_object(response.body)
    if not 200 <= response.status < 300 or answer.get("ok") is False:
        return None
    if origin == "telegram":
        result = answer.get("result")
        number = result.get("message_id") if isinstance(result, dict) else None
        return str(number) if type(number) is int else None
    named = answer.get("ts" if origin == "slack" else "id")
    return named if isinstance(named, str) and named else None


def hold_in(response: Response) -> float | None:
    """For how many seconds a platform wants to be left alone."""
    answer = read_object(response.body)
    limited = answer.get("ok") is False and answer.get("error") in ("ratelimited", "rate_limited")
    if response.status != 429 and not limited:
        return None
    parameters = answer.get("parameters")
    told = parameters.get("retry_after") if isinstance(parameters, dict) else answer.get("retry_after")
    seconds = float(told) if isinstance(told, int | float) and 0 < told < 86_400 else None
    return seconds_to_wait(response.headers.get("retry-after"), now=answered_at(response)) or seconds or 5.0


def _post(desk: Desk, method: str, body: dict[str, Any]) -> Request:
    headers = {"content-type": "application/json; charset=utf-8"}
    if desk.origin == "telegram":
        url = f"{desk.base_url}/bot{quote(desk.token, safe=':')}/{method}"
    else:
        url, headers = f"{desk.base_url}/api/{method}", headers | {"authorization": f"Bearer {desk.token}"}
    return Request("POST", url, headers, msgspec.json.encode(body))


def _discord(desk: Desk, method: str, channel_id: str, draft: str | None, body: dict[str, Any] | None) -> Request:
    headers = {"authorization": f"Bot {desk.token}", "user-agent": "DiscordBot (pillarbox, 1)"}
    headers |= {} if body is None else {"content-type": "application/json"}
    place = f"{desk.base_url}/channels/{quote(channel_id, safe='')}/messages"
    url = place if draft is None else f"{place}/{quote(draft, safe='')}"
    return Request(method, url, headers, b"" if body is None else msgspec.json.encode(body))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
