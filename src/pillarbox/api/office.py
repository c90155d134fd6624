"""What the endpoints under /v1 work with, over HTTP and from the command line."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pillarbox.api.auth import Gate
from pillarbox.api.health import Readiness
from pillarbox.api.idempotency import UnderWay

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox


class Office:
    """A box, who may ask it, and what is being asked of it now."""

    def __init__(self, box: Pillarbox, *, admin_key: str | None) -> None:
        self.box = box
        self.gate = Gate(box.keys, admin_key)
        self.readiness = Readiness(box)
        self.under_way = UnderWay()
        self.stopping = asyncio.Event()
