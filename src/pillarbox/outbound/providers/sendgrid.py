"""Email by SendGrid: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from email.utils import getaddresses
from typing import Any

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.judging import Meaning, answered_at, read_id, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.outbound.retry_after import seconds_until_epoch
from pillarbox.text import check_name

_LONGEST_LINE = 8 * 1024

# It has no codes of its own: the status is all that is documented.
STATUSES = {
    400: Meaning("the request was not valid"),
    401: Meaning("the API key was not accepted, or its credits are used up"),
    403: Meaning("the API key or the sender may not send this, or is blocked for a while after too many bad requests"),
    404: Meaning("the address of the API was not found"),
    405: Meaning("the method is not allowed"),
    406: Meaning("the Accept header is missing"),
    413: Meaning("the message is too large"),
    415: Meaning("the kind of content is not supported"),
    429: Meaning("too many requests"),
    451: Meaning("unavailable because of where the data must stay"),
    500: Meaning("an internal error"),
    503: Meaning("the service is not available"),
}


class SendGrid:
    """Hands mail to SendGrid, which knows no idempotency key: after an unknown attempt a mail may be sent twice."""

    name = "sendgrid"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ("api_key",)
    optional_credentials: tuple[str, ...] = ("webhook_public_key",)
    options: tuple[str, ...] = ()
    base_url = "https://api.sendgrid.com"

    def request(self, message: Outgoing, account: Account) -> Request:
        """One mail as the body of `/v3/mail/send`."""
        return Request(
            "POST",
            f"{account.base_url.rstrip('/')}/v3/mail/send",
            {
                "authorization": f"Bearer {account.secrets['api_key']}",
                "content-type": "application/json",
                "accept": "application/json",
            },
            msgspec.json.encode(_mail(message)),
        )

    def verdict(self, response: Response) -> Verdict:
        """Any 2xx is acceptance; its id is in a header."""
        if 200 <= response.status < 300:
            message_id = read_id(response.headers.get("x-message-id"))
            return Verdict(judgement="accepted", status_code=response.status, provider_msg_id=message_id)
        reset = seconds_until_epoch(response.headers.get("x-ratelimit-reset"), now=answered_at(response))
        throttled = reset if response.status == 429 else None
        return refusal(response, by="SendGrid", meaning=STATUSES.get(response.status), retry_after=throttled)


def _mail(message: Outgoing) -> dict[str, Any]:
    if not message.sender:
        raise InvalidInput("from", "is needed by SendGrid; set it on the message or on the tenant's provider.")
    mail: dict[str, Any] = {
        "personalizations": [_recipients(message)],
        "from": _person("from", message.sender),
        "content": [
            {"type": kind, "value": value}
            for kind, value in (("text/plain", message.text), ("text/html", message.html))
            if value
        ],
        "headers": _headers(message),
        "custom_args": {"message_id": message.message_id},
    }
    if message.reply_to:
        mail["reply_to"] = _person("reply_to", message.reply_to)
    if message.subject:
        mail["subject"] = check_name("subject", message.subject, most=_LONGEST_LINE)
    if message.attachments:
        mail["attachments"] = [
            {
                "content": b64encode(file.content).decode(),
                "type": check_name(f"attachments.{at}.content_type", file.content_type, most=_LONGEST_LINE),
                "filename": check_name(f"attachments.{at}.filename", file.filename, most=_LONGEST_LINE),
                "disposition": "attachment",
            }
            for at, file in enumerate(message.attachments)
        ]
    return mail


def _recipients(message: Outgoing) -> dict[str, list[dict[str, str]]]:
    """Everybody once: SendGrid refuses a mail that names somebody twice among to, cc and bcc."""
    seen: set[str] = set()

    def new(field: str, addresses: Sequence[str]) -> list[dict[str, str]]:
        people = [_person(f"{field}.{at}" if field != "to" else field, text) for at, text in enumerate(addresses)]
        fresh = {person["email"].lower(): person for person in people if person["email"].lower() not in seen}
        seen.update(fresh)
        return list(fresh.values())

    groups = {"to": new("to", [message.to]), "cc": new("cc", message.cc), "bcc": new("bcc", message.bcc)}
    return {field: people for field, people in groups.items() if people}


def _person(field: str, text: str) -> dict[str, str]:
    """A mailbox, with its display name if it has one."""
    check_name(field, text, most=_LONGEST_LINE)
    people = getaddresses([text])
    name, address = people[0] if len(people) == 1 else ("", "")
    if "@" not in address:
        raise InvalidInput(field, "must be one mailbox.")
    return {"email": address, "name": name} if name else {"email": address}


def _headers(message: Outgoing) -> dict[str, str]:
    """The caller's, and ours in place of any the caller set under the same name."""
    ours = {"X-Pillarbox-Id": message.message_id}
    if message.unsubscribe_url:
        ours["List-Unsubscribe"] = f"<{message.unsubscribe_url}>"
        ours["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    taken = {name.lower() for name in ours}
    headers = {name: value for name, value in message.headers.items() if name.lower() not in taken} | ours
    if "auto-submitted" not in {name.lower() for name in headers}:
        headers["Auto-Submitted"] = "auto-generated"
    for name, value in headers.items():
        check_name("headers", name, most=_LONGEST_LINE)
        if value:
            check_name(f"headers.{name}", value, most=_LONGEST_LINE)
    return headers
