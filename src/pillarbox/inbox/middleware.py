"""`Idempotency-Key` for any ASGI application: a request that is repeated is answered as the first time, and not done again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Container
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from pillarbox.errors import InvalidInput, LeaseLost, Unavailable
from pillarbox.inbox.header import idempotency_key
from pillarbox.inbox.keys import inbox_key
from pillarbox.inbox.model import LARGEST_RESULT
from pillarbox.inbox.once import First

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pillarbox.inbox.door import Inbox

TYPE = "urn:pillarbox:problem:"
REPLAYED = (b"idempotency-replayed", b"true")
RETRY_AFTER = (b"retry-after", b"1")
NOT_DONE = frozenset({401, 403, 408, 409, 425, 429})
_LARGEST_BODY = 1024 * 1024
# What base64 and the headers leave room for within a result.
_LARGEST_KEPT = LARGEST_RESULT * 11 // 16
_OF_ONE_CONNECTION = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"date", b"server"})


def caller_of(scope: Scope) -> str:
    """Whose key it is: one caller never sees what another was answered, nor blocks them with a key."""
    given = b"\0".join(value for name, value in scope["headers"] if name == b"authorization")
    return hashlib.sha256(given).hexdigest() if given else ""
