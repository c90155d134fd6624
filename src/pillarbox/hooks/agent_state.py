"""What events tell about the agent of their session."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
    payload, at = row.payload or {}, row.created_at
    if "turn" not in told and row.event_type in _TURNS:
        told["turn"] = _TURNS[row.event_type]
    if "transcript_path" in payload:
        _set(told, "transcript_path", lambda: text_of(payload, "transcript_path", most=_LONGEST_PATH))
    match row.event_type:
        case "user_prompt_submit":
            told.setdefault("last_user_input_at", at)
            _set(told, "last_user_input", lambda: _excerpt(payload, "prompt"))
        case "agent_stop":
            told.setdefault("last_turn_completed_at", at)
            _set(told, "last_summary", lambda: _excerpt(payload, "summary"))
        case "notification":
            _set(told, "last_notification", lambda: _excerpt(payload, "message"))
        case "error":
            _set(told, "last_error", lambda: _excerpt(payload, "message") or _excerpt(payload, "code"))


def _set(told: dict[str, Any], field: str, value: Callable[[], object]) -> None:
    if field not in told and (found := value()) is not None:
        told[field] = found


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
