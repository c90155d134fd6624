"""Where inbound messages end."""

from pillarbox.inbound.targets.placement import Placement, place
from pillarbox.inbound.targets.targets import Targets

__all__ = ["Placement", "Targets", "place"]
