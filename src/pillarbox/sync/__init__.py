"""Pillarbox for programs that do not await: one box in a background thread, under the same names."""

from pillarbox.errors import PermanentError
from pillarbox.outbound.messages import Email, Push, Sms, Webhook
from pillarbox.sync.box import Pillarbox
from pillarbox.sync.inbox import First

__all__ = ["Email", "First", "PermanentError", "Pillarbox", "Push", "Sms", "Webhook"]
