"""What was damaged on disk so that no statement finds it by what is left of its id: passed over, and told of once."""

from __future__ import annotations

from collections.abc import Sequence

from pillarbox.storage import DAMAGED, Row, is_legible
from pillarbox.telemetry import logger
from pillarbox.text import printable

log = logger(__name__)

_MOST_TOLD = 1000


class PassedOver:
    """Tells rows whose id can be read from those that stay where they are, and names each of these in the log once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def by_id(self, rows: Sequence[Row]) -> list[Row]:
        """Those whose id, in their first column, can be read."""
        return [row for row in rows if is_legible(row[0]) or self._tell(row[0])]

    def by_tenant(self, rows: Sequence[Row]) -> list[Row]:
        """Those whose id can be read, and of which their second column and their last say that they are the same tenant's."""
        return [row for row in self.by_id(rows) if row[1] == row[-1] or self._tell(row[0])]

    def _tell(self, message_id: object) -> bool:
        shown = printable(message_id)
        if shown not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(shown)
            log.error("a message whose row was damaged on disk is passed over", message_id=shown, hint=DAMAGED)
        return False
