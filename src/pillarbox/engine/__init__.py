"""The one loop that drains a table: claim, deliver, settle, under leases that cannot be outlived."""

from pillarbox.engine.backoff import Backoff
from pillarbox.engine.batch import Batch
from pillarbox.engine.bell import Bell
from pillarbox.engine.drain import Drain
from pillarbox.engine.janitor import Chore, Janitor
from pillarbox.engine.judgement import Untouched, not_begun
from pillarbox.engine.lane import Lane, Standby, Turn
from pillarbox.engine.lease import Lease, Settlement, Strand
from pillarbox.engine.outcome import Delivered, Failed, Outcome, Retry, Skipped
from pillarbox.engine.pace import Pace
from pillarbox.engine.policy import Policy
from pillarbox.engine.room import Room
from pillarbox.engine.watched import WatchedLane

__all__ = [
    "Backoff",
    "Batch",
    "Bell",
    "Chore",
    "Delivered",
    "Drain",
    "Failed",
    "Janitor",
    "Lane",
    "Lease",
    "Outcome",
    "Pace",
    "Policy",
    "Retry",
    "Room",
    "Settlement",
    "Skipped",
    "Standby",
    "Strand",
    "Turn",
    "Untouched",
    "WatchedLane",
    "not_begun",
]
