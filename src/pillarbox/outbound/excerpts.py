"""What an attempt that did not end well asked and was answered: in short, and without secrets, addresses and content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pillarbox.outbound.known import LOOKED_AT, Known, known_of
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from pillarbox.outbound.quoting import Said
from pillarbox.telemetry import logger
from pillarbox.telemetry.redact import HIDDEN

log = logger(__name__)

_LONGEST_REQUEST = 300
_LONGEST_VALUE = 100
_LONGEST_BODY = 500
_LONGEST_JSON = 4096
_MOST_PARTS = 200
_SHOWN = ("content-type", "retry-after", "request-id", "x-request-id", "twilio-request-id", "x-message-id", "cf-ray")
_COMMON_TYPES = frozenset(
    ("application/json", "application/problem+json", "application/xml", "text/html", "text/plain", "text/xml")
)
_ONE_WORD = re.compile(r"\S{1,200}")
_DATE = re.compile(r"\d{1,10}|[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT")
_COMMON_NAMES = frozenset(
    (
        *("code", "description", "detail", "details", "error", "errors", "error_code", "error_message", "field"),
        *("help", "message", "messages", "more_info", "reason", "request_id", "status", "title", "type"),
    )
)
_CODES = frozenset(("code", "error", "error_code", "errno", "reason", "status", "type"))
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,39}|[0-9]{1,6}")
_MAIL_CODE = re.compile(r"[2-5]\d\d(?:[ -][245]\.\d{1,3}\.\d{1,3})?(?!\S)")
_QUOTES = "({} bytes that are not kept, as they may quote the message)"


def with_exchange(
    verdict: Verdict, message: Outgoing, account: Account, request: Request, response: Response | None
) -> Verdict:
    """The verdict with what was asked and answered over HTTP; as it is where the message was accepted."""
    if verdict.judgement == "accepted":
        return verdict
    try:
        known = known_of(message, account, request)
        answered = None if response is None else _answered(response, known, message)
        return replace(verdict, request=_asked(request, known), response=answered)
    except Exception as error:
        return _without_words(verdict, error)


def with_own_words(verdict: Verdict, message: Outgoing, account: Account) -> Verdict:
    """The same where the provider did the sending and tells by itself what was said."""
    if verdict.judgement == "accepted" or (verdict.request is None and verdict.response is None):
        return verdict
    try:
        return _in_own_words(verdict, message, account)
    except Exception as error:
        return _without_words(verdict, error)


def _without_words(verdict: Verdict, error: Exception) -> Verdict:
    """What a provider decided stands, whatever cannot be shown of it."""
    log.error("what was asked and answered cannot be shown", error=type(error).__name__)
    return replace(verdict, request=None, response=None)


def _in_own_words(verdict: Verdict, message: Outgoing, account: Account) -> Verdict:
    known, said, answer = known_of(message, account), Said(message), verdict.response
    asked = None if verdict.request is None else known.taken_out_of(verdict.request, _LONGEST_REQUEST)
    if answer is not None and said.is_quoted_in(answer[:LOOKED_AT]):
        code = _MAIL_CODE.match(answer)
        answer = f"{code[0] if code else ''} {_QUOTES.format(len(answer.encode('utf-8', 'replace')))}".strip()
    elif answer is not None:
        answer = known.taken_out_of(answer, _LONGEST_BODY)
    return replace(verdict, request=asked, response=answer)


def _asked(request: Request, known: Known) -> str:
    """The method and where to: no query, no headers, no body."""
    parts = urlsplit(request.url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return f"{request.method} {known.taken_out_of(place, _LONGEST_REQUEST)}"


def _answered(response: Response, known: Known, message: Outgoing) -> str:
    """The status, the few headers that help, and the beginning of the body."""
    said = Said(message)
    lines = [str(response.status)]
    lines += [
        f"{name}: {_value(name, response.headers[name], known, said)}" for name in _SHOWN if name in response.headers
    ]
    body = _body(response.body, known, said, only_codes=message.channel == "webhook")
    return "\n".join([*lines, "", body] if body else lines)


def _value(name: str, value: str, known: Known, said: Said) -> str:
    """A header that is written as it should be; whatever else stands in it may be a quotation."""
    value = value.partition(";")[0].strip() if name == "content-type" else value
    if value.lower() in _COMMON_TYPES:
        return value
    is_plain = _DATE.fullmatch(value) if name == "retry-after" else _ONE_WORD.fullmatch(value)
    return known.taken_out_of(value, _LONGEST_VALUE) if is_plain and not said.is_quoted_in(value) else HIDDEN


def _body(body: bytes, known: Known, said: Said, *, only_codes: bool) -> str:
    """What an answer says of its own accord; of a webhook, which may say again whatever it was told, only its codes."""
    if not body:
        return ""
    text = body[:LOOKED_AT].decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > len(text) // 10:
        return f"({len(body)} bytes that are no text)"
    is_cut = len(body) > LOOKED_AT
    try:
        answer = msgspec.json.decode(body) if len(body) <= _LONGEST_JSON else None
        if isinstance(answer, dict | list):
            answer = _codes(answer, said) if only_codes else _own_words(answer, said, iter(range(_MOST_PARTS)))
            text, is_cut = json.dumps(answer, ensure_ascii=False) if answer else "", False
        elif only_codes or said.is_quoted_in(text):
            text = ""
    except (ValueError, RecursionError):
        # No JSON, or nested deeper than anybody would have to.
        text = "" if only_codes or said.is_quoted_in(text) else text
    return known.taken_out_of(text, _LONGEST_BODY, is_cut=is_cut) if text else _QUOTES.format(len(body))


def _own_words(answer: Any, said: Said, looked_at: Iterator[int]) -> Any:
    """An answer in JSON without those of its names and values that may quote the message; so many are looked at."""
    if isinstance(answer, dict):
        return {_name(name, said, looked_at): _own_words(value, said, looked_at) for name, value in answer.items()}
    if isinstance(answer, list):
        return [_own_words(value, said, looked_at) for value in answer]
    if answer is None or isinstance(answer, bool):
        return answer
    return HIDDEN if next(looked_at, None) is None or said.is_quoted_in(str(answer)) else answer


def _name(name: str, said: Said, looked_at: Iterator[int]) -> str:
    if name in _COMMON_NAMES:
        return name
    return HIDDEN if next(looked_at, None) is None or said.is_quoted_in(name) else name


def _codes(answer: Any, said: Said) -> Any:
    """The fields that commonly hold a code, where what they hold looks like one and was not said to it."""
    if isinstance(answer, list):
        return [codes for each in answer if isinstance(each, dict) and (codes := _codes(each, said))]
    codes = {}
    for name, value in answer.items():
        if name in ("error", "errors") and isinstance(value, dict | list):
            codes[name] = _codes(value, said)
        elif name in _CODES and _is_code(value) and not said.is_quoted_in(str(value)):
            codes[name] = value
    return {name: value for name, value in codes.items() if value or value == 0}


def _is_code(value: object) -> bool:
    return type(value) in (int, str) and _CODE.fullmatch(str(value)) is not None
