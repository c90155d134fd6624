"""Which previews stand in chats: kept on disk, so that one whose process died is found and taken away all the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from pillarbox.conversations.lines import queries
from pillarbox.process import is_dead
from pillarbox.storage import Step, instant

LEASE = timedelta(seconds=60)
_MOST = 200


class Standing(NamedTuple):
    """A preview in a chat, whoever has shown it; `place` is the thread of the chat in which it stands, where it stands in one."""

    origin: str
    channel_id: str
    draft: str
    session_id: str
    place: str | None = None

    @property
    def where(self) -> str:
        return self.place or self.channel_id

    @property
    def chat(self) -> tuple[str, str]:
        return self.origin, self.channel_id

    @property
    def name(self) -> dict[str, str]:
        return {"origin": self.origin, "channel_id": self.channel_id, "draft": self.draft}


def note(standing: Standing, holder: str, now: datetime) -> Step[None]:
    """A preview was shown; nobody else touches it while the lease runs."""
    where = {"session_id": standing.session_id, "place": standing.place}
    yield queries.note_preview(**standing.name, **where, holder=holder, lease_until=now + LEASE, now=now)


def renew(holder: str, now: datetime) -> Step[None]:
    yield queries.renew_previews(holder=holder, lease_until=now + LEASE)


def forget(standing: Standing) -> Step[None]:
    """A preview is gone, or has become a text that may stay."""
    yield queries.forget_preview(**standing.name)


def forgotten(holder: str, origins: Sequence[str], now: datetime) -> Step[list[tuple[Standing, str, datetime]]]:
    """Previews that no living process minds, who showed each of them, and when."""
    rows = yield queries.previews(limit=_MOST)
    return [
        (Standing(*name), shown_by, instant(shown_at))
        for *name, shown_by, lease_until, shown_at in rows
        if name[0] in origins and shown_by != holder and (instant(lease_until) <= now or is_dead(shown_by))
    ]


def take(standing: Standing, forgotten_by: str, holder: str, now: datetime) -> Step[bool]:
    """Mind a preview that was forgotten; False if somebody else does by now."""
    taken = yield queries.take_preview(
        **standing.name, holder=holder, lease_until=now + LEASE, forgotten_by=forgotten_by
    )
    return bool(taken)
