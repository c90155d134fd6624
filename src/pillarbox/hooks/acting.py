"""What operators do to events: try one now, or a dead one again."""

from __future__ import annotations

from datetime import datetime

from pillarbox.errors import AlreadyEnded
from pillarbox.hooks import reading, strands
from pillarbox.hooks.model import HookRecord
from pillarbox.storage import Step


def retry(event_id: int, now: datetime) -> Step[HookRecord]:
    """Try a waiting event now; a dead one goes again, behind what its session has waiting."""
    before = yield from reading.get(event_id)
    strand = (yield from strands.lock([before.session_id]))[before.session_id]
    record = yield from reading.get(event_id)
    match record.status:
        case "dead":
            yield strands.queries.revive(id=event_id, seq=strand.next_seq, now=now)
            added = [(strand.session_id, strand.next_seq + 1, 1, strand.next_seq)]
            yield strands.queries.lengthen(rows=added, now=now)
        case "delivered" | "superseded":
            raise AlreadyEnded(f"Event {event_id} is {record.status} and stays so.")
        case _ if strand.head_seq == record.seq:
            yield strands.queries.hasten(session_id=strand.session_id, now=now)
            yield strands.queries.hasten_row(id=event_id, now=now)
    return (yield from reading.get(event_id))
