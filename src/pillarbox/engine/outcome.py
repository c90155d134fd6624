"""How one delivery ended, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has it."""

    receipt: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Not this time; again at `at`, which the policy fills in where it is left open, but not before `not_before`.

    An attempt that never reached its destination does not count.
    """

    error: str
    at: datetime | None = None
    not_before: datetime | None = None
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """Never: trying again would not help."""

    error: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Let go: back to what it was before the claim, the attempt given back, the reason noted."""

    reason: str
    at: datetime | None = None


Outcome = Delivered | Retry | Failed | Skipped
