"""A file that somebody sent, and the troubles of getting at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import msgspec


class Gone(Exception):
    """It cannot be had, now or later; the text says why and may be shown to anyone."""


class NotNow(Exception):
    """It cannot be had at the moment; the text says why and may be shown to anyone."""


class Full(NotNow):
    """There is no room for it at the moment."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a platform keeps a file, and what it says about it."""

    origin: str
    file_id: str | None = None
    url: str | None = None
    channel_id: str | None = None
    message_id: str | None = None
    name: str | None = None
    kind: str | None = None
    mime: str | None = None
    size: int | None = None

    @property
    def chat(self) -> str:
        """The chat that it was sent in, by a name that tells nobody which."""
        return sha256(f"{self.origin}\0{self.channel_id}".encode("utf-8", "replace")).hexdigest()[:16]


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that lies on this machine, or why it does not; with neither it is still to be fetched."""

    path: str | None = None
    sha256: str | None = None
    size: int | None = None
    trouble: str | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be fetched."""
        return self.path is None and self.trouble is None


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known here of the files of one message, and of which chat it is.

    `about` tells it from another database's message of that number.
    """

    about: str = ""
    chat: str = ""
    files: tuple[Kept, ...] = ()
    transcript: str | None = None
    unheard: str | None = None


@dataclass(frozen=True, slots=True)
class MediaPolicy:
    """How large, how long, and for how long."""

    max_bytes: int = 20 * 1024 * 1024
    max_total_bytes: int = 10 * 1024 * 1024 * 1024
    fetch_timeout: float = 60.0
    retention: timedelta = timedelta(days=1)
    attempts: int = 5


@dataclass(frozen=True, slots=True)
class Platform:
    """How a platform's files are asked for: where it is and what opens it; `trusted` origins are the operator's own word."""

    base_url: str
    token: str | None = None
    trusted: frozenset[str] = field(default_factory=frozenset)


def digest_of(wanted: Sequence[Reference]) -> str:
    """The same for the same files, and for no others; a size may be learned only when the file is here."""
    named = [astuple(replace(reference, size=None)) for reference in wanted]
    return sha256(repr(named).encode("utf-8", "replace")).hexdigest()[:32]


def references_in(payload: Any, *, origin: str, channel_id: str | None, message_id: str | None) -> list[Reference]:
    """The files that a message's payload names, the main one first."""
    if not isinstance(payload, dict):
        return []
    more = payload.get("more_files")
    if origin == "discord":
        # A thread whose session is that of its channel still has its messages to itself.
        channel_id = _text(payload.get("thread_id")) or channel_id
    named = [payload, *(more if isinstance(more, list) else [])]
    return [_reference(each, origin, channel_id, message_id) for each in named if isinstance(each, dict)]


def _reference(named: dict[str, Any], origin: str, channel_id: str | None, message_id: str | None) -> Reference:
    size = named.get("size")
    return Reference(
        origin=origin,
        file_id=_text(named.get("file_id")),
        url=_text(named.get("url")),
        channel_id=channel_id,
        message_id=message_id,
        name=_text(named.get("name")),
        kind=_text(named.get("kind")),
        mime=_text(named.get("mime")),
        size=size if isinstance(size, int) and not isinstance(size, bool) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
