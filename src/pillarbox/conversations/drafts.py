"""A message of ours that is shown for a while, changed, and taken away again: what each platform wants to be asked for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple
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


Fate = Literal["done", "gone", "refused", "again"]
"""What became of a wish about a draft: it was granted, the draft is not there, never, or perhaps another time."""

_SLACK_PASSES = ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org")
_SLACK_GONE = ("message_not_found", "channel_not_found")
_DISCORD_GONE = (10003, 10008)


def show(desk: Desk, channel_id: str, text: str, draft: str | None, route: Mapping[str, Any] | None = None) -> Request:
    """Show a text in a chat: in place of the draft that stands there, else where `route` leads, a topic or a thread."""
    match desk.origin:
        case "telegram" if draft is None:
            said = {"chat_id": channel_id, "text": text, "disable_notification": True}
            topic = (route or {}).get("thread_id")
            return _post(desk, "sendMessage", said | ({"message_thread_id": topic} if type(topic) is int else {}))
        case "telegram":
            return _post(desk, "editMessageText", {"chat_id": channel_id, "message_id": int(draft or 0), "text": text})
        case "slack" if draft is None:
            thread = (route or {}).get("thread_ts")
            said = {"channel": channel_id, "text": _escaped(text)}
            return _post(desk, "chat.postMessage", said | ({"thread_ts": thread} if isinstance(thread, str) else {}))
        case "slack":
            return _post(desk, "chat.update", {"channel": channel_id, "ts": draft, "text": _escaped(text)})
        case _:
            # Flag 12: nobody's telephone rings for it.
            body: dict[str, Any] = {"content": text, "allowed_mentions": {"parse": []}}
            body |= {} if draft else {"flags": 1 << 12}
            return _discord(desk, "PATCH" if draft else "POST", channel_id, draft, body)


def place_in(origin: str, way: Mapping[str, Any]) -> str | None:
    """The place of its own that a way leads to: a thread of Discord is one, a topic or a thread elsewhere is not."""
    thread = way.get("thread_id")
    return str(thread) if origin == "discord" and thread else None


def remove(desk: Desk, channel_id: str, draft: str) -> Request:
    """Take a draft away."""
    match desk.origin:
        case "telegram":
            return _post(desk, "deleteMessage", {"chat_id": channel_id, "message_id": int(draft)})
        case "slack":
            return _post(desk, "chat.delete", {"channel": channel_id, "ts": draft})
        case _:
            return _discord(desk, "DELETE", channel_id, draft, None)


def fate(origin: str, response: Response) -> Fate:
    """What became of a change or a removal that a platform has answered."""
    answer = read_object(response.body)
    refused = response.status >= 400 or answer.get("ok") is False
    if not refused:
        return "done" if 200 <= response.status < 300 else "again"
    word, code = str(answer.get("error")), answer.get("code")
    if response.status == 429 or response.status >= 500 or (origin == "slack" and word in _SLACK_PASSES):
        return "again"
    if origin == "telegram" and "not found" in str(answer.get("description")).lower() and response.status == 400:
        return "gone"
    gone = (origin == "slack" and word in _SLACK_GONE) or (origin == "discord" and code in _DISCORD_GONE)
    return "gone" if gone else "refused"


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
