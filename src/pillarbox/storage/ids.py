"""Ids that carry their time, so that their order is the order in which they were made."""

from __future__ import annotations

from datetime import datetime

import uuid_utils

AFTER_ALL = "g"
"""Sorts behind every id."""


def new_id() -> str:
    """An id that sorts by time."""
    return str(uuid_utils.uuid7())


def earliest_id(at: datetime) -> str:
    """The beginning of the ids that were made at an instant of the wall clock."""
    digits = f"{max(0, int(at.timestamp() * 1000)):012x}"
    return f"{digits[:8]}-{digits[8:]}"
