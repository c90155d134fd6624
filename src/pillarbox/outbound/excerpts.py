"""What an attempt that did not end well asked and was answered: in short, and without secrets and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlsplit

from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.telemetry.redact import hide
from pillarbox.text import in_sight

_LONGEST_REQUEST = 300
_LONGEST_VALUE = 100
_LONGEST_BODY = 500
# So much of an answer is looked at; what is shown of it is shorter.
_READ = 2048
_LEAST_SECRET = 8
_LEAST_VALUE = 4
_SHOWN = ("content-type", "retry-after", "request-id", "x-request-id", "twilio-request-id", "x-message-id", "cf-ray")
_NOT_SECRET = frozenset({"content-type", "content-length", "accept", "user-agent", "webhook-id", "webhook-timestamp"})
_MOST_SAID = 16 * 1024
_MOST_LINES = 100
_JSON_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WORD = re.compile(r"[^\s,;]+")


@dataclass(frozen=True, slots=True)
class Known:
    """What an attempt knows that nobody is to read again."""

    secrets: frozenset[str]
    addresses: frozenset[str]

    def and_said(self, message: Outgoing) -> Known:
        """Also what the message says: an answer may quote it."""
        return Known(self.secrets | frozenset(_said(message)), self.addresses)

    def taken_out_of(self, text: str, most: int) -> str:
        text = hide(text.replace("\r\n", "\n"), secrets=self.secrets, addresses=self.addresses)
        shown = in_sight(text).strip()
        return shown if len(shown) <= most else shown[: most - 1] + "…"


def with_exchange(
    verdict: Verdict, message: Outgoing, account: Account, request: Request, response: Response | None
) -> Verdict:
    """The verdict with what was asked and answered over HTTP; as it is where the message was accepted."""
    if verdict.judgement == "accepted":
        return verdict
    known = known_of(message, account, request)
    answered = None if response is None else _answered(response, known.and_said(message))
    return replace(verdict, request=_asked(request, known), response=answered)


def with_own_words(verdict: Verdict, message: Outgoing, account: Account) -> Verdict:
    """The same where the provider did the sending and tells by itself what was said."""
    if verdict.judgement == "accepted" or (verdict.request is None and verdict.response is None):
        return verdict
    known = known_of(message, account)
    asked = None if verdict.request is None else known.taken_out_of(verdict.request, _LONGEST_REQUEST)
    answered = (
        None
        if verdict.response is None
        else _body(verdict.response.encode("utf-8", "replace"), known.and_said(message))
    )
    return replace(verdict, request=asked, response=answered)


def known_of(message: Outgoing, account: Account, request: Request | None = None) -> Known:
    """The account's secrets, what the request carried to prove who asks, and everybody whom the message names."""
    secrets = {*account.secrets.values(), *(value for value in message.headers.values() if len(value) >= _LEAST_VALUE)}
    if request is not None:
        secrets |= set(_in_headers(request)) | set(_in_url(request.url))
    addresses = {message.reply_to, message.sender, message.unsubscribe_url, *message.cc, *message.bcc}
    if message.channel != "webhook":
        addresses.add(message.to)
    return Known(frozenset(filter(None, secrets)), frozenset(filter(None, addresses)))


def _said(message: Outgoing) -> Iterable[str]:
    """The lines of a message, or the texts in a webhook's body; short ones and late ones are left out."""
    texts = [message.subject, message.text, message.html]
    lines = [line.strip() for text in texts if text for line in text[:_MOST_SAID].splitlines()]
    if message.body is not None:
        lines += _JSON_TEXT.findall(message.body[:_MOST_SAID].decode("utf-8", "replace"))
    return [line for line in lines if len(line) >= _LEAST_SECRET][:_MOST_LINES]


def _asked(request: Request, known: Known) -> str:
    """The method and where to: no query, no headers, no body."""
    parts = urlsplit(request.url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{request.method} {known.taken_out_of(place, _LONGEST_REQUEST)}"


def _answered(response: Response, known: Known) -> str:
    """The status, the few headers that help, and the beginning of the body."""
    lines = [str(response.status)]
    lines += [
        f"{name}: {known.taken_out_of(response.headers[name], _LONGEST_VALUE)}"
        for name in _SHOWN
        if name in response.headers
    ]
    body = _body(response.body, known)
    return "\n".join([*lines, "", body] if body else lines)


def _body(body: bytes, known: Known) -> str:
    if not body:
        return ""
    text = body[:_READ].decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > len(text) // 10:
        return f"({len(body)} bytes that are no text)"
    if len(body) <= _READ:
        return known.taken_out_of(text, _LONGEST_BODY)
    # What was cut in two would no longer be known for what it is.
    return known.taken_out_of(_without_end(text, known), _LONGEST_BODY - 1) + "…"


def _without_end(text: str, known: Known) -> str:
    begun = (
        length
        for secret in known.secrets | known.addresses
        for length in range(len(secret) - 1, 0, -1)
        if text.endswith(secret[:length])
    )
    return re.sub(r"\S+\Z", "", text[: len(text) - max(begun, default=0)])


def _in_headers(request: Request) -> Iterable[str]:
    for name, value in request.headers.items():
        if name.lower() not in _NOT_SECRET:
            yield from (word for word in _WORD.findall(value) if len(word) >= _LEAST_SECRET)


def _in_url(url: str) -> Iterable[str]:
    parts = urlsplit(url)
    yield from (value for _, value in parse_qsl(parts.query))
    yield from (part for part in (parts.username, parts.password) if part)
