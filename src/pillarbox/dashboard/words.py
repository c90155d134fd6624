"""How values are shown: instants, spans, counts, states, and text that strangers wrote."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from pillarbox.filters.model import words
from pillarbox.text import in_sight, on_one_line, printable

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60))
_TONES = {
    "delivered": "good",
    "sent": "good",
    "Processed": "good",
    "active": "good",
    "done": "good",
    "accepted": "good",
    "alive": "good",
    "failed": "bad",
    "bounced": "bad",
    "dead": "bad",
    "rejected": "bad",
    "gone": "bad",
    "refused": "bad",
    "retrying": "warn",
    "transient": "warn",
    "unknown": "warn",
    "stopped": "warn",
    "initializing": "warn",
    "processing": "busy",
    "running": "busy",
    "Leased": "busy",
    "headless": "busy",
    "in": "in",
    "out": "out",
    "hook": "hook",
}


def foreign(text: object, most: int = 160) -> Markup:
    """Text that others wrote: on one line, escaped, cut, and kept from turning the text around it."""
    return Markup("<bdi>{}</bdi>").format(printable(on_one_line(str(text)), most))


def tone(state: str) -> str:
    """The colour of a state."""
    return _TONES.get(state, "idle")


def instant(at: datetime | None) -> str:
    """An instant in full."""
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def when(at: datetime | None) -> Markup:
    """How long ago or until, which the page keeps up to date, with the instant in full behind it."""
    if at is None:
        return Markup('<span class="soft">none</span>')
    machine = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return Markup('<time datetime="{}" title="{}" data-relative>{}</time>').format(machine, instant(at), distance(at))


def distance(at: datetime, now: datetime | None = None) -> str:
    seconds = round((at - (now or datetime.now(UTC))).total_seconds())
    if seconds > 0:
        return f"in {span(seconds)}"
    return "now" if seconds == 0 else f"{span(-seconds)} ago"


def span(seconds: float | timedelta | None) -> str:
    """A length of time in its largest unit."""
    if seconds is None:
        return "none"
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def count(number: int | float) -> str:
    return f"{number:,.0f}"


def term(value: object, name: str) -> str:
    """A term of the filter language."""
    return str(words(name, str(value)))


def segment(text: object) -> str:
    """Text as one segment of a path."""
    return quote(str(text), safe="")


def pretty(value: Any) -> str:
    """A JSON value over several lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def marked(text: str, most: int = 100_000) -> Markup:
    """A body as it is, cut where no page could hold it, its control characters in sight."""
    cut = text[:most]
    shown = in_sight(cut)
    rest = len(text) - most
    return escape(shown) + (
        Markup('\n<em class="soft">… and {} characters more</em>').format(count(rest)) if rest > 0 else ""
    )
