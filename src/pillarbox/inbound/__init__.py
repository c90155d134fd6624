"""What people and programs send, brought to its session in exact order."""

from pillarbox.inbound.model import Enqueued, InboundMessage, NewMessage, Parcel, QueueState
from pillarbox.inbound.pipe import Inbound

__all__ = ["Enqueued", "Inbound", "InboundMessage", "NewMessage", "Parcel", "QueueState"]
