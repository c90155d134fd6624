"""Messages to deliver."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from pillarbox.inbound.model import InboundMessage

_MESSAGE = InboundMessage(
    id=41,
    session_id="s1",
    seq=7,
    origin="telegram",
    message_type="text",
    content="Grüße, 世界 🙂",
    payload_json='{"n": 18446744073709551615, "list": [1.5, null]}',
    actor_id="u9",
    actor_name="Ada",
    actor_avatar_url=None,
    status="processing",
    created_at=datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    processed_at=None,
    attempt_count=3,
    death_count=0,
    next_retry_at=None,
    last_error=None,
    locked_at=datetime(2025, 1, 2, 3, 4, 6, tzinfo=UTC),
    source_message_id="77",
    source_channel_id=None,
    token=12,
)


def a_message(**changes: Any) -> InboundMessage:
    return msgspec.structs.replace(_MESSAGE, **changes)
