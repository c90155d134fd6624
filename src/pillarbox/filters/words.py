"""The words of the filter language: what each one means, and what may stand behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pillarbox.filters.model import PIPES, Pipe

Kind = Literal["choice", "name", "text", "number", "span"]

STATUSES: Mapping[Pipe, tuple[str, ...]] = MappingProxyType(
    {
        "outbound": (
            "pending",
            "processing",
            "retrying",
            "sent",
            "delivered",
            "bounced",
            "failed",
            "canceled",
            "expired",
        ),
        "inbound": ("pending", "processing", "delivered", "failed", "expired"),
        "hooks": ("pending", "processing", "delivered", "failed", "superseded", "dead"),
    }
)
CHANNELS = ("email", "sms", "push", "webhook", "voice", "whatsapp", "telegram", "discord", "slack", "inapp")
_EVERY_STATUS = tuple(dict.fromkeys(status for pipe in PIPES for status in STATUSES[pipe]))
_OUT: tuple[Pipe, ...] = ("outbound",)


@dataclass(frozen=True, slots=True)
class Word:
    """What a term is about; where it says nothing of a pipe, it matches nothing there."""

    name: str
    about: str
    kind: Kind
    pipes: tuple[Pipe, ...]
    choices: tuple[str, ...] = ()
    longest: int = 200


WORDS: Mapping[str, Word] = MappingProxyType(
    {
        word.name: word
        for word in (
            Word(
                "status",
                "where it is on its way; `retrying` will be tried again, whichever way it goes; `failed` has ended "
                "if it went out, and is the same as `retrying` elsewhere",
                "choice",
                PIPES,
                _EVERY_STATUS,
            ),
            Word("pipe", "which way it goes", "choice", PIPES, PIPES),
            Word("channel", "what carries an outbound message", "choice", _OUT, CHANNELS),
            Word("tenant", "whose outbound message it is", "name", _OUT, longest=63),
            Word("to", "the recipient, in any spelling; needs one `tenant`", "name", _OUT, longest=2000),
            Word("contact", "the recipient as it is kept, a keyed hash", "name", _OUT, longest=64),
            Word("provider", "who took the last attempt", "name", _OUT),
            Word("tag", "one of its tags", "name", _OUT, longest=64),
            Word("category", "what it is for", "choice", _OUT, ("transactional", "marketing")),
            Word("priority", "0 to 1000, lower first", "number", _OUT),
            Word("session", "whose conversation it belongs to", "name", ("inbound", "hooks")),
            Word("origin", "where an inbound message came from", "name", ("inbound",)),
            Word("type", "an event's type, or `text`, `voice` or `file`", "name", ("inbound", "hooks")),
            Word("error", "what its last error says somewhere, capitals or not", "text", PIPES),
            Word("attempts", "how often it was tried", "number", PIPES),
            Word("age", "how long ago it came in: 30s, 5m, 2h, 7d", "span", PIPES),
            Word("id", "its id", "name", PIPES, longest=64),
        )
    }
)
