"""What every queue of sessions does alike: holding strands, keeping hold, and taking over from the dead."""

from pillarbox.strands.leases import StrandLeases

__all__ = ["StrandLeases"]
