"""Messages of a Discord bot: https://discord.com/developers/docs/resources/message#create-message"""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.judging import Meaning, read_id, read_object, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.text import check_name

_LONGEST_CHANNEL = 100
_LONGEST_NONCE = 25

# https://discord.com/developers/docs/topics/opcodes-and-status-codes#json; a code that is not here is judged by its status.
CODES = {
    10003: Meaning("the channel is not known", "rejected"),
    10008: Meaning("the message is not known", "rejected"),
    20016: Meaning("the channel is in slow mode", "transient"),
    20028: Meaning("the channel's rate is exceeded", "transient"),
    40001: Meaning("the bot's token was not accepted", "rejected"),
    50001: Meaning("the bot has no access to the channel", "rejected"),
    50006: Meaning("an empty message cannot be sent", "rejected"),
    50007: Meaning("the user takes no messages of the bot", "rejected"),
    50008: Meaning("the channel takes no text", "rejected"),
    50013: Meaning("the bot may not write in the channel", "rejected"),
    50035: Meaning("the message is not in a valid form", "rejected"),
    50083: Meaning("the thread is archived", "rejected"),
    130000: Meaning("Discord is overloaded", "transient"),
    160005: Meaning("the thread is locked", "rejected"),
}


class Discord:
    """Hands texts to Discord, which for a few minutes makes no second message of the same nonce."""

    name = "discord"
    channels: frozenset[Channel] = frozenset({"discord"})
    credentials: tuple[str, ...] = ("bot_token",)
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = "https://discord.com"

    def request(self, message: Outgoing, account: Account) -> Request:
        """One text to a channel or a thread, or an answer to the message `data.reply_to`; nobody is alerted by it."""
        channel = quote(check_name("to", message.to, most=_LONGEST_CHANNEL), safe="")
        body: dict[str, Any] = {
            "content": message.text or "",
            "nonce": sha256(message.message_id.encode()).hexdigest()[:_LONGEST_NONCE],
            "enforce_nonce": True,
            "allowed_mentions": {"parse": []},
        }
        if (answered := (message.data or {}).get("reply_to")) is not None:
            if not isinstance(answered, str) or _snowflake(answered) is None:
                raise InvalidInput("data.reply_to", "must be the id of a message.")
            body["allowed_mentions"]["replied_user"] = False
            # Whoever deletes that message does not keep this one from being sent.
            body["message_reference"] = {"message_id": answered, "fail_if_not_exists": False}
        return Request(
            "POST",
            f"{account.base_url.rstrip('/')}/api/v10/channels/{channel}/messages",
            {
                "authorization": f"Bot {account.secrets['bot_token']}",
                "content-type": "application/json",
                "accept": "application/json",
                # Requests of bots that do not call themselves so are turned away.
                "user-agent": "DiscordBot (pillarbox, 1)",
            },
            msgspec.json.encode(body),
        )

    def verdict(self, response: Response) -> Verdict:
        """Any 2xx is acceptance; otherwise the code in the answer says more than its status."""
        answer = read_object(response.body)
        if 200 <= response.status < 300:
            return Verdict(
                judgement="accepted", status_code=response.status, provider_msg_id=_snowflake(answer.get("id"))
            )
        code = answer.get("code") if response.status >= 400 else None
        known = code if type(code) is int and code in CODES else None
        wait = answer.get("retry_after")
        seconds = float(wait) if type(wait) in (int, float) and 0 < float(wait) < 10**9 else None  # type: ignore[arg-type]
        meaning = None if known is None else CODES[known]
        return refusal(response, by="Discord", meaning=meaning, code=known, retry_after=seconds)


def _snowflake(value: object) -> str | None:
    found = read_id(value)
    return found if found is not None and found.isdigit() else None
