"""Webhooks: any URL, signed by Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.outbound.header_rules import check_webhook_headers
from pillarbox.outbound.judging import Meaning, refusal
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict

_OURS = ("webhook-id", "webhook-timestamp", "webhook-signature")
_SAYS_SOMETHING_ELSE = re.compile(r"content-.*|user-agent|accept.*|authorization|cookie|traceparent|tracestate")
_LONGEST_HEADER_NAME = 100

STATUSES = {
    401: Meaning("it wants other credentials"),
    403: Meaning("it may not be called like this"),
    404: Meaning("nothing is there"),
    408: Meaning("the request took too long"),
    410: Meaning("it is gone and takes no more messages"),
    413: Meaning("the body is too large"),
    425: Meaning("too early"),
    429: Meaning("too many requests"),
    503: Meaning("it is not available"),
}


class Webhook:
    """Calls a URL; its 2xx is delivery. The id is the same on every attempt, so a receiver can tell repeats."""

    name = "webhook"
    channels: frozenset[Channel] = frozenset({"webhook"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ("signing_secret", "previous_signing_secret")
    options: tuple[str, ...] = ("signature_header",)
    base_url = ""

    def check_options(self, field: str, config: Mapping[str, Any], trusted: frozenset[str]) -> None:
        """Refuse a header for the plain signature that has another meaning."""
        if "signature_header" not in config:
            return
        field, header = f"{field}.signature_header", config["signature_header"]
        if not isinstance(header, str) or len(header) > _LONGEST_HEADER_NAME:
            raise InvalidInput(field, f"must be the name of a header, of at most {_LONGEST_HEADER_NAME} characters.")
        try:
            check_webhook_headers({header: ""})
        except InvalidInput as fault:
            raise InvalidInput(field, fault.detail) from None
        if _SAYS_SOMETHING_ELSE.fullmatch(header.lower()):
            raise InvalidInput(field, "is a header that says something else.")

    def request(self, message: Outgoing, account: Account) -> Request:
        """The caller's method, headers and bytes, with the id and time of this attempt and the signatures over both."""
        body = message.body or b""
        header = str(account.options.get("signature_header") or "")
        ours = {"webhook-id": message.message_id, "webhook-timestamp": str(int(message.at.timestamp()))}
        keys = [_key(name, account.secrets[name]) for name in self.optional_credentials if account.secrets.get(name)]
        if keys:
            signed = f"{ours['webhook-id']}.{ours['webhook-timestamp']}.".encode() + body
            entries = (f"v1,{b64encode(hmac.digest(key, signed, sha256)).decode()}" for key in keys)
            ours["webhook-signature"] = " ".join(entries)
        if header and keys:
            ours[header] = hmac.digest(keys[0], body, sha256).hex()
        taken = {*_OURS, *(name.lower() for name in ours)}
        headers = {name: value for name, value in message.headers.items() if name.lower() not in taken}
        if body and "content-type" not in {name.lower() for name in headers}:
            headers["content-type"] = "application/json"
        return Request(message.method, message.to, headers | ours, body)

    def verdict(self, response: Response) -> Verdict:
        """Any 2xx is delivery, whatever the body says."""
        if 200 <= response.status < 300:
            return Verdict(judgement="accepted", status_code=response.status, delivered=True)
        return refusal(response, by="The webhook", meaning=STATUSES.get(response.status))


def signature_headers(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The headers that carry a signature where messages are sent by this entry of a tenant; none without a secret."""
    if config["provider"] != Webhook.name or not set(config.get("credentials", {})) & set(Webhook.optional_credentials):
        return ()
    header = config.get("signature_header")
    return (_OURS[2], str(header)) if header else (_OURS[2],)


def _key(name: str, secret: str) -> bytes:
    """The key in a secret of Standard Webhooks, padded or not."""
    encoded = secret.removeprefix("whsec_").rstrip("=")
    try:
        key = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        key = b""
    if not key or not secret.startswith("whsec_"):
        raise InvalidInput(f"credentials.{name}", "must be whsec_ followed by base64.")
    return key
