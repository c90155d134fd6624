"""Messages of a Telegram bot: https://core.telegram.org/bots/api#sendmessage"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.judging import Meaning, read_object, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.text import check_name

_LONGEST_CHAT = 100

# The Bot API has no codes of its own: a failure repeats its HTTP status as `error_code`, in words that may change.
MEANINGS = {
    400: Meaning("the chat is not known, or the message cannot be sent to it"),
    401: Meaning("the bot's token was not accepted"),
    403: Meaning("the bot was blocked or removed, or may not write there"),
    404: Meaning("the bot's token was not accepted"),
    429: Meaning("too many messages, to this chat or in all"),
}


class Telegram:
    """Hands texts to the Bot API, which knows no idempotency key: after an unknown attempt a text may be sent twice."""

    name = "telegram"
    channels: frozenset[Channel] = frozenset({"telegram"})
    credentials: tuple[str, ...] = ("bot_token",)
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = "https://api.telegram.org"

    def request(self, message: Outgoing, account: Account) -> Request:
        """One plain text; `data.thread_id` is the topic of a forum that it belongs to, `data.reply_to` a message it answers."""
        body: dict[str, Any] = {
            "chat_id": check_name("to", message.to, most=_LONGEST_CHAT),
            "text": message.text or "",
        }
        if (thread := (message.data or {}).get("thread_id")) is not None:
            if isinstance(thread, bool) or not isinstance(thread, int):
                raise InvalidInput("data.thread_id", "must be the number of a topic.")
            body["message_thread_id"] = thread
        if (answered := (message.data or {}).get("reply_to")) is not None:
            if isinstance(answered, bool) or not isinstance(answered, int):
                raise InvalidInput("data.reply_to", "must be the number of a message.")
            # Whoever deletes that message does not keep this one from being sent.
            body["reply_parameters"] = {"message_id": answered, "allow_sending_without_reply": True}
        return Request(
            "POST",
            f"{account.base_url.rstrip('/')}/bot{quote(account.secrets['bot_token'], safe=':')}/sendMessage",
            {"content-type": "application/json", "accept": "application/json"},
            msgspec.json.encode(body),
        )

    def verdict(self, response: Response) -> Verdict:
        """Any 2xx is acceptance; the wait that a 429 asks for stands in its body."""
        answer = read_object(response.body)
        if 200 <= response.status < 300:
            number = _inside(answer.get("result")).get("message_id")
            told = str(number) if type(number) is int and 0 < number < 2**63 else None
            return Verdict(judgement="accepted", status_code=response.status, provider_msg_id=told)
        wait = _inside(answer.get("parameters")).get("retry_after")
        seconds = float(wait) if type(wait) is int and 0 < wait < 10**9 else None
        return refusal(response, by="Telegram", meaning=MEANINGS.get(response.status), retry_after=seconds)


def _inside(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
