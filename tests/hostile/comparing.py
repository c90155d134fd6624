"""What an answer says that must be the same on both databases: everything but ids, instants, tokens and lengths of time."""

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.api.client import Reply

# Each is made anew by each stand, so that only its being there can be compared.
_MADE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00| UTC)?"), "<instant>"),
    (re.compile(r"pbx_[0-9A-Za-z_-]{20,}"), "<key>"),
    (re.compile(r"login:[0-9a-f]{8}"), "<login>"),
    (re.compile(r"(?<=/embed/)[0-9A-Za-z_.~-]{20,}"), "<token>"),
)
_ON_PAGES = (
    (re.compile(r'(?<=name="form_token" value=")[^"]*'), "<token>"),
    (re.compile(r'(?<=name="once" value=")[^"]*'), "<token>"),
    (re.compile(r"(?<=data-relative>)[^<]*"), "<when>"),
    (re.compile(r"(?<=cursor=)[0-9A-Za-z_%=-]+"), "<cursor>"),
    # A key is free once its lease is over, which is at a moment of its own on each.
    (re.compile(r'(?<=<h2>Leased</h2><div class="figure"><b>)\d+'), "<leased>"),
    (re.compile(r'(?<=<h2>Free</h2><div class="figure"><b>)\d+'), "<free>"),
    (re.compile(r'\d+(?=</b><span class="soft">leased<)|\d+(?=</b> free<)'), "<leased or free>"),
    # A cap that was used is free again after a while.
    (re.compile(r"; the next goes .*?(?=</dd>)"), ""),
    (re.compile(r"\b\d+(\.\d)? (ms|s|min|h)\b"), "<span>"),
    (re.compile(r"\bin <span>|<span> ago|\bnow\b"), "<when>"),
)
_MADE_ANEW = ("id", "next_cursor", "cursor", "leaseId", "token")
# What time alone changes: ages, and which keys of the inbox are still held.
_TIMED = re.compile(r"\w*age_seconds|leased|free")
# What is there for a while.
_PASSING = "waits_until"


def meaning(reply: Reply, names: Mapping[str, str]) -> tuple[object, ...]:
    """What a caller goes by."""
    kind = reply.headers.get("content-type", "").partition(";")[0]
    where = _without_names(reply.headers.get("location", ""), names)
    if kind == "application/problem+json" and reply.body:
        problem = json.loads(reply.body)
        return (reply.status, kind, problem["type"], [error["field"] for error in problem.get("errors", ())])
    return (reply.status, kind, where, _content(kind, reply.body, names))


def difference(one: object, other: object) -> str:
    """Where two meanings part, and what stands around that place in each."""
    texts = repr(one), repr(other)
    place = next((place for place, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    return " | ".join(text[max(0, place - 100) : place + 200] for text in texts)


def _content(kind: str, body: bytes, names: Mapping[str, str]) -> object:
    if not body:
        return None
    if kind == "application/json":
        return _shape(json.loads(body), names)
    text = body.decode("utf-8", "replace")
    if kind == "text/html":
        for pattern, placeholder in _ON_PAGES:
            text = pattern.sub(placeholder, text)
        return _without_names(text, names)
    if kind == "text/plain":
        # The figures of a process are its own; which ones there are is not.
        return sorted({line for line in text.splitlines() if line.startswith("#")}) or text
    # A stream tells what happens when it happens.
    return None if kind == "text/event-stream" else text


def _shape(value: Any, names: Mapping[str, str], key: str = "") -> object:
    if key == _PASSING:
        return f"<{key}>"
    if isinstance(value, dict):
        return {name: _shape(inner, names, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner, names, key) for inner in value]
    if value is not None and not isinstance(value, bool) and (key in _MADE_ANEW or _TIMED.fullmatch(key)):
        return f"<{key}>"
    return _without_names(value, names) if isinstance(value, str) else value


def _without_names(text: str, names: Mapping[str, str]) -> str:
    """Text in which what a stand made goes by its name."""
    for name, value in names.items():
        if len(value) > 8:
            text = text.replace(value, f"@{name}@")
    for pattern, placeholder in _MADE:
        text = pattern.sub(placeholder, text)
    return text
