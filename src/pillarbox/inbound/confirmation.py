"""Matching what an agent says it was asked with what was delivered to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pillarbox.inbound import strands
from pillarbox.inbound.strands import queries
from pillarbox.inbound.targets.tmux_text import clean, fenced, unsigned, without_envelope
from pillarbox.storage import Row, Step

_LOOK_BACK = 50
# A shorter text may well stand in a longer prompt by chance.
_SHORTEST_PART = 16


def confirm(prompts: Sequence[tuple[str, str]], now: datetime) -> Step[None]:
    """Mark, for each session and prompt, the message that the prompt carries; one for each prompt."""
    locked = yield from strands.lock({session_id for session_id, _ in prompts})
    confirmed: list[int] = []
    for session_id, prompt in prompts:
        if (strand := locked.get(session_id)) is None:
            continue
        rows = yield queries.unconfirmed(session_id=session_id, from_seq=strand.next_seq - _LOOK_BACK)
        found = carried(prompt, [row for row in reversed(rows) if row[0] not in confirmed])
        if found is not None:
            confirmed.append(found)
    if confirmed:
        yield queries.confirm(ids=confirmed, now=now)


def carried(prompt: str, rows: Sequence[Row]) -> int | None:
    """The oldest of these (id, content) that is the prompt, whoever it says is speaking, else the longest part of it."""
    asked = _plain(prompt)
    whole = {asked, _plain(without_envelope(prompt))}
    contents = [(row_id, clean(content)) for row_id, content in rows]
    for row_id, content in contents:
        if content and not whole.isdisjoint(_plain(form) for form in (content, fenced(content), unsigned(content))):
            return int(row_id)
    plain = [(row_id, _plain(content)) for row_id, content in contents]
    parts = [(len(content), row_id) for row_id, content in plain if len(content) >= _SHORTEST_PART and content in asked]
    return int(max(parts, key=lambda part: part[0])[1]) if parts else None


def _plain(text: str) -> str:
    return " ".join(text.split())
