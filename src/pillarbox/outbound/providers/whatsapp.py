"""Messages of WhatsApp's Cloud API: https://developers.facebook.com/docs/whatsapp/cloud-api/reference/messages"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.contacts import is_whatsapp_user
from pillarbox.outbound.judging import Meaning, read_id, read_object, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.text import check_name

_LONGEST_ADDRESS = 256
_WAMID = re.compile(r"[\x21-\x7e]{1,200}")
_NUMBER_ID = re.compile(r"[0-9]{1,30}")
_VERSION = re.compile(r"v[0-9]{1,3}\.[0-9]{1,2}")
_NEWEST = "v23.0"
GROUP = "group:"

# https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes; others are judged by their HTTP status.
CODES = {
    4: Meaning("the app's rate is exceeded", "transient"),
    10: Meaning("the permission to send is missing", "rejected"),
    100: Meaning("the request is not in a valid form", "rejected"),
    190: Meaning("the access token was not accepted", "rejected"),
    368: Meaning("the account was blocked for breaking a policy", "rejected"),
    80007: Meaning("the account's rate is exceeded", "transient"),
    130429: Meaning("the number's rate is exceeded", "transient"),
    130472: Meaning("the recipient is part of an experiment and gets no such messages", "rejected"),
    131000: Meaning("an unknown error", "transient"),
    131005: Meaning("access is denied", "rejected"),
    131008: Meaning("a parameter is missing", "rejected"),
    131009: Meaning("a parameter is not valid", "rejected"),
    131016: Meaning("the service is not available", "transient"),
    131021: Meaning("sender and recipient are the same", "rejected"),
    131026: Meaning("the recipient cannot get the message", "rejected"),
    131031: Meaning("the account is locked", "rejected"),
    131042: Meaning("payment for the account is not in order", "rejected"),
    131047: Meaning("more than a day since the recipient last wrote", "rejected"),
    131048: Meaning("too many of the number's messages were taken for spam", "transient"),
    131051: Meaning("this type of message is not supported", "rejected"),
    131056: Meaning("too many messages to this recipient in a short time", "transient"),
    131062: Meaning("this message cannot be sent to a person whose number is not known", "rejected"),
    133010: Meaning("the number is not registered", "rejected"),
}


class WhatsApp:
    """Hands texts to the Cloud API, which knows no idempotency key: after an unknown attempt a text may be sent twice."""

    name = "whatsapp"
    channels: frozenset[Channel] = frozenset({"whatsapp"})
    credentials: tuple[str, ...] = ("access_token",)
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ("phone_number_id", "api_version")
    base_url = "https://graph.facebook.com"

    def check_options(self, field: str, config: Mapping[str, Any], trusted: frozenset[str]) -> None:
        """Refuse what could not be part of the address."""
        for option, form in (("phone_number_id", _NUMBER_ID), ("api_version", _VERSION)):
            value = config.get(option)
            if value is not None and not (isinstance(value, str) and form.fullmatch(value)):
                raise InvalidInput(f"{field}.{option}", f"must be of the form {form.pattern}.")

    def request(self, message: Outgoing, account: Account) -> Request:
        """One text from the number that `data.phone_number_id` or the provider's option names.

        `data.reply_to` is the message that it answers.
        """
        number = (message.data or {}).get("phone_number_id") or account.options.get("phone_number_id")
        if not isinstance(number, str) or not _NUMBER_ID.fullmatch(number):
            raise InvalidInput("data.phone_number_id", "must be the id of the number to send from.")
        version = account.options.get("api_version") or _NEWEST
        body: dict[str, Any] = {
            "messaging_product": "whatsapp",
            **_recipient(check_name("to", message.to, most=_LONGEST_ADDRESS)),
            "type": "text",
            "text": {"preview_url": False, "body": message.text or ""},
        }
        if (answered := (message.data or {}).get("reply_to")) is not None:
            if not isinstance(answered, str) or not _WAMID.fullmatch(answered):
                raise InvalidInput("data.reply_to", "must be the id of a message, such as wamid.HBgL.")
            body["context"] = {"message_id": answered}
        return Request(
            "POST",
            f"{account.base_url.rstrip('/')}/{version}/{number}/messages",
            {
                "authorization": f"Bearer {account.secrets['access_token']}",
                "content-type": "application/json",
                "accept": "application/json",
            },
            msgspec.json.encode(body),
        )

    def verdict(self, response: Response) -> Verdict:
        """Any 2xx is acceptance; otherwise the code in the answer says more than its status."""
        answer = read_object(response.body)
        if 200 <= response.status < 300:
            sent = answer.get("messages")
            first = sent[0] if isinstance(sent, list) and sent and isinstance(sent[0], dict) else {}
            return Verdict(judgement="accepted", status_code=response.status, provider_msg_id=read_id(first.get("id")))
        error = answer.get("error")
        code = error.get("code") if isinstance(error, dict) and response.status >= 400 else None
        known = code if type(code) is int and code in CODES else None
        return refusal(response, by="WhatsApp", meaning=None if known is None else CODES[known], code=known)


def _recipient(contact: str) -> dict[str, str]:
    """A number, a person whose number is not shown, or a group: each has a field or a type of its own."""
    if contact.startswith(GROUP):
        return {"recipient_type": "group", "to": contact.removeprefix(GROUP)}
    return {"recipient_type": "individual", "recipient" if is_whatsapp_user(contact) else "to": contact}
