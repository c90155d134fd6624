"""Ids of messages and of what happens to them."""

from __future__ import annotations

import uuid_utils


def new_id() -> str:
    """An id that sorts by time."""
    return str(uuid_utils.uuid7())
