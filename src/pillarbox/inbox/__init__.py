"""Handle each message once: a lease on its key while somebody works, and a memory of the key afterwards."""

from pillarbox.inbox.door import Inbox
from pillarbox.inbox.keys import KeyParts, inbox_key, key_parts
from pillarbox.inbox.memory import MemoryInbox
from pillarbox.inbox.model import Begun, InboxStatus, LeaseAnswer, Sighting
from pillarbox.inbox.once import First
from pillarbox.inbox.sql import SqlInbox
from pillarbox.inbox.store import InboxStore

__all__ = [
    "Begun",
    "First",
    "Inbox",
    "InboxStatus",
    "InboxStore",
    "KeyParts",
    "LeaseAnswer",
    "MemoryInbox",
    "Sighting",
    "SqlInbox",
    "inbox_key",
    "key_parts",
]
