"""Actions of operators, as they are noted and as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec


@dataclass(frozen=True, slots=True)
class Act:
    """What is about to be done, and to what; never an address, never what a message says."""

    action: str
    subject_kind: str
    subject_id: str
    tenant_id: str | None = None


class OperatorAction(msgspec.Struct, frozen=True, kw_only=True):
    """Something an operator did; `outcome` is `done`, or why it was refused."""

    id: str
    at: datetime
    who: str
    action: str
    subject_kind: str
    subject_id: str
    tenant_id: str | None
    outcome: str
