"""The numbers of the way back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True, slots=True)
class ConversationsPolicy:
    """Which platforms can be written to, how often to look for new words, and how long they are kept.

    `begins_within` is how long an agent may take to say that it began with a message.
    `linger` is for how long a transcript that was left, or whose session was closed, is still looked at.
    """

    origins: frozenset[str] = frozenset()
    look: float = 0.5
    retention: timedelta = timedelta(days=7)
    quiet: float = 2.0
    busy_at_most: timedelta = timedelta(minutes=30)
    phone_number_id: str | None = None
    begins_within: timedelta = timedelta(seconds=10)
    threaded: bool = False
    default_session: str | None = None
    default_session_tells: Literal["answers", "everything", "nothing"] = "answers"
    linger: timedelta = timedelta(minutes=1)
