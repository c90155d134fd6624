"""What every queue of sessions does alike: places for rows, holding strands, keeping hold, and taking over from the dead."""

from pillarbox.strands.age import age_seconds
from pillarbox.strands.leases import StrandLeases
from pillarbox.strands.passed_over import PassedOver
from pillarbox.strands.places import Places

__all__ = ["PassedOver", "Places", "StrandLeases", "age_seconds"]
