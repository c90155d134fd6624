"""What events tell about the agent of their session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pillarbox.hooks.model import AgentState, HookRow, Turn
from pillarbox.storage import Row, instant, instant_or_none

_LONGEST_EXCERPT = 4000
_LONGEST_PATH = 4096
# A payload is stored escaped; read, it may say what no column takes.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_TURNS: dict[str, Turn] = {
    "session_start": "idle",
    "user_prompt_submit": "working",
    "tool_use": "working",
    "tool_done": "working",
    "agent_stop": "idle",
    "notification": "waiting",
}

_MOMENTS = {"user_prompt_submit": "last_user_input_at", "agent_stop": "last_turn_completed_at"}
# The field, and where in a payload its text stands: in the first of these that has any.
_TEXTS = {
    "user_prompt_submit": ("last_user_input", "prompt"),
    "agent_stop": ("last_summary", "summary"),
    "notification": ("last_notification", "message"),
    "error": ("last_error", "message", "code"),
}


class Change(NamedTuple):
    """What to change of an agent's state; None leaves a thing as it is."""

    session_id: str
    turn: Turn | None = None
    last_activity: datetime | None = None
    last_user_input: str | None = None
    last_user_input_at: datetime | None = None
    last_turn_completed_at: datetime | None = None
    last_summary: str | None = None
    last_notification: str | None = None
    last_error: str | None = None
    transcript_path: str | None = None


def merged(rows: Sequence[HookRow]) -> list[Change]:
    """The changes that these events make, in their order, one for each session; activity never goes back."""
    told: dict[str, dict[str, Any]] = {}
    # From the last one on, so that only what counts in the end is looked at.
    for row in reversed(rows):
        before = told.get(row.session_id)
        if before is None:
            before = told[row.session_id] = {"last_activity": row.created_at}
        elif row.created_at > before["last_activity"]:
            before["last_activity"] = row.created_at
        _tell(row, before)
    return [Change(key, **told[key]) for key in sorted(told)]


def _tell(row: HookRow, told: dict[str, Any]) -> None:
    """Add what one event tells and no later one did; tool events tell of activity alone, for output has a path of its own."""
    kind, payload = row.event_type, row.payload or {}
    if "turn" not in told and kind in _TURNS:
        told["turn"] = _TURNS[kind]
    if "transcript_path" in payload and "transcript_path" not in told:
        _set(told, "transcript_path", text_of(payload, "transcript_path", most=_LONGEST_PATH))
    if kind in _MOMENTS:
        told.setdefault(_MOMENTS[kind], row.created_at)
    if kind in _TEXTS:
        field, *places = _TEXTS[kind]
        if field not in told:
            _set(told, field, _first_text(payload, places))


def _set(told: dict[str, Any], field: str, value: object) -> None:
    if value is not None:
        told[field] = value


def _first_text(payload: dict[str, Any], places: Sequence[str]) -> str | None:
    """What the first of these says, or the last, where none says anything."""
    text = None
    for place in places:
        if text := _excerpt(payload, place):
            break
    return text


def state_from(row: Row) -> AgentState:
    return AgentState(
        turn=row[0],
        last_activity=instant(row[1]),
        last_user_input=row[2],
        last_user_input_at=instant_or_none(row[3]),
        last_turn_completed_at=instant_or_none(row[4]),
        last_summary=row[5],
        last_notification=row[6],
        last_error=row[7],
        transcript_path=row[8],
    )


def text_of(payload: dict[str, Any], field: str, *, most: int) -> str | None:
    """A field that is text of a usable length; payloads are what agents make of them."""
    value = payload.get(field)
    usable = isinstance(value, str) and 0 < len(value) <= most and not _UNSTORABLE.search(value)
    return value if usable else None


def _excerpt(payload: dict[str, Any], field: str) -> str | None:
    value = payload.get(field)
    if isinstance(value, int):
        value = str(value)
    return _UNSTORABLE.sub("\ufffd", value[:_LONGEST_EXCERPT]) if isinstance(value, str) else None
