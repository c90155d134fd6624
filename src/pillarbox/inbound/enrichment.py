"""What is learned about a message before it is delivered: where its files lie, and what was said in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pillarbox.inbound.model import ENDED, InboundMessage
from pillarbox.inbound.strands import queries
from pillarbox.storage import Step, checksum, instant_or_none


def enrich(learned: InboundMessage) -> Step[None]:
    """Write down type, content and payload under the claim they were learned under; a claim that was lost writes nothing."""
    parts = (learned.session_id, learned.origin, learned.message_type, learned.content, learned.payload_json)
    yield queries.enrich(
        id=learned.id,
        token=learned.token,
        message_type=learned.message_type,
        content=learned.content,
        payload_json=learned.payload_json,
        checksum=checksum(*parts, learned.actor_id, learned.actor_name, learned.actor_avatar_url),
    )


def ended_before(message_ids: Sequence[int], before: datetime) -> Step[list[int]]:
    """Those of these messages that ended before then, or are not there any more."""
    rows = {row[0]: row for row in (yield queries.endings(ids=list(message_ids)))}
    over = []
    for message_id in message_ids:
        row = rows.get(message_id)
        ended_at = None if row is None else instant_or_none(row[2])
        if row is None or (row[1] in ENDED and ended_at is not None and ended_at < before):
            over.append(message_id)
    return over
