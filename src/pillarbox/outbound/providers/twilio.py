"""SMS by Twilio: https://www.twilio.com/docs/messaging/api/message-resource#create-a-message-resource"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from pillarbox.errors import InvalidInput
from pillarbox.outbound.destinations import check_url
from pillarbox.outbound.judging import Meaning, read_id, read_object, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.text import check_name

_LONGEST_ADDRESS = 100
_MESSAGING_SERVICE = re.compile(r"MG[0-9a-fA-F]{32}")

# https://www.twilio.com/docs/api/errors; a code that is not here is judged by its HTTP status.
CODES = {
    14107: Meaning("too many messages between two numbers in a short time", "transient"),
    20003: Meaning("the credentials were not accepted", "rejected"),
    20429: Meaning("too many requests at once", "transient"),
    21211: Meaning("the number to send to is not valid", "rejected"),
    21408: Meaning("the account may not send to that region", "rejected"),
    21606: Meaning("the sender is not a number that can send this", "rejected"),
    21608: Meaning("a trial account may send to verified numbers only", "rejected"),
    21610: Meaning("the recipient has unsubscribed from this sender", "rejected", opt_out=True),
    21611: Meaning("the sender's queue is full", "transient"),
    21612: Meaning("there is no route from this sender to that number", "rejected"),
    21614: Meaning("the number to send to is not a mobile number", "rejected"),
    21635: Meaning("the number to send to is a landline", "rejected"),
    30001: Meaning("the queue is overflowing", "transient"),
    30002: Meaning("the account is suspended", "rejected"),
    30003: Meaning("the handset cannot be reached", "transient"),
    30004: Meaning("the message was blocked", "rejected"),
    30005: Meaning("the handset is unknown", "rejected"),
    30006: Meaning("a landline, or a carrier that cannot be reached", "rejected"),
    30007: Meaning("the carrier filtered the message", "rejected"),
    30008: Meaning("an unknown error", "transient", last_chance=True),
    30034: Meaning("the sender is not registered for this kind of traffic", "rejected"),
    63003: Meaning("the address to send to is not known to the channel", "rejected"),
    63016: Meaning("outside the time in which a free message is allowed", "rejected"),
    63017: Meaning("the account's rate is exceeded", "transient"),
    63018: Meaning("the channel's rate is exceeded", "transient"),
    63024: Meaning("the recipient is not valid for the channel", "rejected"),
}


class Twilio:
    """Hands texts to Twilio, which knows no idempotency key: after an unknown attempt a text may be sent twice."""

    name = "twilio"
    channels: frozenset[Channel] = frozenset({"sms"})
    credentials: tuple[str, ...] = ("account_sid", "auth_token")
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ("status_callback",)
    base_url = "https://api.twilio.com"

    def check_options(self, field: str, config: Mapping[str, Any], trusted: frozenset[str]) -> None:
        """Refuse a place for callbacks that Twilio could not reach; what the operator trusts is near us, not near it."""
        if "status_callback" not in config:
            return
        if not isinstance(callback := config["status_callback"], str):
            raise InvalidInput(f"{field}.status_callback", "must be the text of a URL.")
        check_url(f"{field}.status_callback", callback, trusted=frozenset())

    def request(self, message: Outgoing, account: Account) -> Request:
        """One text as the form of the account's `Messages.json`; a sender `MG...` is a messaging service."""
        if not message.sender:
            raise InvalidInput("from", "is needed by Twilio; set it on the message or on the tenant's provider.")
        sid, token = account.secrets["account_sid"], account.secrets["auth_token"]
        sender = "MessagingServiceSid" if _MESSAGING_SERVICE.fullmatch(message.sender) else "From"
        form = {
            "To": check_name("to", message.to, most=_LONGEST_ADDRESS),
            sender: check_name("from", message.sender, most=_LONGEST_ADDRESS),
            "Body": message.text or "",
        }
        if callback := account.options.get("status_callback"):
            form["StatusCallback"] = str(callback)
        return Request(
            "POST",
            f"{account.base_url.rstrip('/')}/2010-04-01/Accounts/{quote(sid, safe='')}/Messages.json",
            {
                "authorization": f"Basic {b64encode(f'{sid}:{token}'.encode()).decode()}",
                "content-type": "application/x-www-form-urlencoded",
                "accept": "application/json",
            },
            urlencode(form).encode(),
        )

    def verdict(self, response: Response) -> Verdict:
        """Any 2xx is acceptance; otherwise the code in the answer says more than its status."""
        answer = read_object(response.body)
        if 200 <= response.status < 300:
            sid = read_id(answer.get("sid"))
            return Verdict(judgement="accepted", status_code=response.status, provider_msg_id=sid)
        code = _code(answer.get("code")) if response.status >= 400 else None
        meaning = None if code is None else CODES.get(code)
        return refusal(response, by="Twilio", meaning=meaning, code=code)


def _code(value: object) -> int | None:
    """A code of the dictionary; any other number is not quoted."""
    return value if type(value) is int and 10000 <= value <= 99999 else None
