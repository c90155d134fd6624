"""What every queue of sessions does alike: places for rows, holding strands, keeping hold, and taking over from the dead."""

from pillarbox.strands.leases import StrandLeases
from pillarbox.strands.places import Places

__all__ = ["Places", "StrandLeases"]
