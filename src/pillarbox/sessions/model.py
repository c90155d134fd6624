"""A session as everybody sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Lifecycle = Literal["initializing", "active", "headless", "closed"]
LIFECYCLES: tuple[Lifecycle, ...] = ("initializing", "active", "headless", "closed")


class Channel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An outside conversation whose messages go to the session."""

    origin: str
    channel_id: str


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation with one target."""

    session_id: str
    title: str | None
    lifecycle_status: Lifecycle
    target: dict[str, Any]
    node: str | None
    agent: str | None
    native_session_id: str | None
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None
    channels: tuple[Channel, ...] = ()


class SessionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change of a session; whatever is left unset stays."""

    title: str | UnsetType | None = UNSET
    lifecycle_status: Lifecycle | UnsetType = UNSET
    target: dict[str, Any] | UnsetType = UNSET
    node: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    native_session_id: str | UnsetType | None = UNSET
    channels: tuple[Channel, ...] | UnsetType = UNSET
