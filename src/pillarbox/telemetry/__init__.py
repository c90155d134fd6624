"""What the process says about itself: logs, metrics, and what must never be in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pillarbox.telemetry.logs import Logger, configure, logger
from pillarbox.telemetry.redact import brief, mask, scrub

if TYPE_CHECKING:
    from pillarbox.telemetry.metrics import Metrics

__all__ = ["Logger", "Metrics", "brief", "configure", "logger", "mask", "scrub"]


def __getattr__(name: str) -> object:
    # prometheus-client is slow to import, and whoever only logs does not need it.
    if name == "Metrics":
        from pillarbox.telemetry.metrics import Metrics

        return Metrics
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
