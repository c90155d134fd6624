"""Recording outcomes one by one, where one of a set is the trouble."""

from __future__ import annotations

from collections.abc import Sequence

from pillarbox.clock import Clock
from pillarbox.engine.lane import Lane
from pillarbox.engine.lease import RowT, Settlement
from pillarbox.engine.lost import LostStrands
from pillarbox.errors import Unavailable
from pillarbox.telemetry import brief, logger

log = logger(__name__)


async def settle_singly(
    lane: Lane[RowT], settlements: Sequence[Settlement[RowT]], *, lost: LostStrands[RowT], clock: Clock
) -> list[Settlement[RowT]]:
    """Record each that can be; answers those to be tried again."""
    for position, settlement in enumerate(settlements):
        try:
            lost.report(await lane.settle([settlement], now=clock.now()))
        except Unavailable:
            # With all behind it: a row that is reported before the one in front of it counts as lost.
            return list(settlements[position:])
        except Exception as error:
            lost.note(settlement.strand)
            log.error("an outcome cannot be recorded; its lease will end", id=settlement.row.id, error=brief(error))
    return []
