"""What is kept of what operators do."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pillarbox.settings.shapes import Days, Section


class Audit(Section, frozen=True, kw_only=True):
    """The list of what operators did."""

    retention_days: Annotated[
        Days, Meta(description="How long actions of operators, and operations on many messages, are kept.")
    ] = 365.0
