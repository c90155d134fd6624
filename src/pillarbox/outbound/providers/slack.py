"""Messages of a Slack app: https://docs.slack.dev/reference/methods/chat.postMessage"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.judging import Meaning, read_id, read_object, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.text import check_name

_LONGEST_CHANNEL = 100
_TIMESTAMP = re.compile(r"[0-9]{1,20}\.[0-9]{1,20}")

# Slack refuses with HTTP 200, `ok: false` and a word; one that is not here is a refusal for good.
WORDS = {
    "account_inactive": Meaning("the app's token belongs to nobody any more", "rejected"),
    "channel_not_found": Meaning("the channel is not known", "rejected"),
    "fatal_error": Meaning("Slack failed, and some of it may have happened", "unknown"),
    "internal_error": Meaning("Slack failed, and some of it may have happened", "unknown"),
    "invalid_auth": Meaning("the app's token was not accepted", "rejected"),
    "is_archived": Meaning("the channel is archived", "rejected"),
    "missing_scope": Meaning("the app lacks the permission chat:write", "rejected"),
    "msg_too_long": Meaning("the text is too long", "rejected"),
    "no_text": Meaning("the message has no text", "rejected"),
    "not_authed": Meaning("the app's token was not accepted", "rejected"),
    "not_in_channel": Meaning("the app is not in the channel", "rejected"),
    "rate_limited": Meaning("too many messages, to this channel or in all", "transient"),
    "ratelimited": Meaning("too many messages, to this channel or in all", "transient"),
    "request_timeout": Meaning("the request did not arrive as a whole", "transient"),
    "restricted_action": Meaning("the workspace does not let the app write there", "rejected"),
    "service_unavailable": Meaning("Slack is not available", "transient"),
    "team_added_to_org": Meaning("the workspace is being moved", "transient"),
    "token_expired": Meaning("the app's token has expired", "rejected"),
    "token_revoked": Meaning("the app's token was revoked", "rejected"),
}
_OTHERWISE = Meaning("it was refused", "rejected")


class Slack:
    """Hands texts to Slack, which knows no idempotency key: after an unknown attempt a text may be sent twice."""

    name = "slack"
    channels: frozenset[Channel] = frozenset({"slack"})
    credentials: tuple[str, ...] = ("bot_token",)
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = "https://slack.com"

    def request(self, message: Outgoing, account: Account) -> Request:
        """One text to a conversation; `data.thread_ts` is the message whose thread it belongs to."""
        body: dict[str, Any] = {
            "channel": check_name("to", message.to, most=_LONGEST_CHANNEL),
            "text": _escaped(message.text or ""),
        }
        if (thread := (message.data or {}).get("thread_ts")) is not None:
            if not isinstance(thread, str) or not _TIMESTAMP.fullmatch(thread):
                raise InvalidInput("data.thread_ts", "must be a message's ts, such as 1503435956.000247.")
            body["thread_ts"] = thread
        return Request(
            "POST",
            f"{account.base_url.rstrip('/')}/api/chat.postMessage",
            {
                "authorization": f"Bearer {account.secrets['bot_token']}",
                "content-type": "application/json; charset=utf-8",
                "accept": "application/json",
            },
            msgspec.json.encode(body),
        )

    def verdict(self, response: Response) -> Verdict:
        """A 2xx is acceptance unless it says otherwise, which it usually does there."""
        answer = read_object(response.body)
        refused = answer.get("ok") is False and 200 <= response.status < 500
        if 200 <= response.status < 300 and not refused:
            return Verdict(judgement="accepted", status_code=response.status, provider_msg_id=_ts(answer.get("ts")))
        word = answer.get("error")
        meaning = WORDS.get(word, _OTHERWISE) if refused and isinstance(word, str) else None
        if refused and meaning is None and response.status < 300:
            meaning = _OTHERWISE
        return refusal(response, by="Slack", meaning=meaning if response.status != 429 else WORDS["ratelimited"])


def _escaped(text: str) -> str:
    """Slack reads these three characters as its own; as entities they are text again."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ts(value: object) -> str | None:
    found = read_id(value)
    return found if found is not None and _TIMESTAMP.fullmatch(found) else None
