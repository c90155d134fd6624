"""Every exception Pillarbox raises on purpose.

PillarboxError
├── InvalidInput            bad input, names the field                      HTTP 422, exit 2
├── NotFound                no such session, message or key                 HTTP 404, exit 3
├── Refused                 understood, and not done                        HTTP 409, exit 4
│   ├── SessionClosed       the session takes no more messages
│   ├── SessionExists       that session id is taken
│   ├── DuplicateMismatch   that source id was used for another message
│   ├── AlreadyEnded        the message was delivered or expired before
│   ├── KeyBusy             somebody else is handling that key of the inbox
│   └── LeaseLost           the lease on a key went to somebody else, or ran out
├── Unavailable             try again later; nothing was acknowledged       HTTP 503, exit 1
│   ├── DatabaseBusy        no connection or write lock in time
│   └── DatabaseFull        the disk has no room
├── UnsafeDatabase          a database that could lose messages is refused
├── SchemaTooNew            a newer Pillarbox has migrated this database
└── SettingsError           an unknown or contradictory setting, named
"""

from __future__ import annotations


class PillarboxError(Exception):
    """Anything Pillarbox raises on purpose; its text is one sentence that says what to do next."""


class InvalidInput(PillarboxError):
    """Input that cannot be taken, with the dotted path of the field at fault."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(f"{field}: {detail}")
        self.field = field
        self.detail = detail


class NotFound(PillarboxError):
    """Nothing is known under that id."""


class Refused(PillarboxError):
    """The request was understood and is not done; `reason` is stable and ends the problem's type."""

    reason = "refused"


class SessionClosed(Refused):
    """The session is closed and takes no more messages."""

    reason = "session-closed"


class SessionExists(Refused):
    """A session with that id is there already."""

    reason = "session-exists"


class DuplicateMismatch(Refused):
    """The source id was used before, for another message."""

    reason = "duplicate-mismatch"


class AlreadyEnded(Refused):
    """The message was delivered or expired before, and stays so."""

    reason = "already-ended"


class KeyBusy(Refused):
    """Somebody else holds that key of the inbox; try again when they are done."""

    reason = "key-busy"


class LeaseLost(Refused):
    """The lease on a key of the inbox went to somebody else, or ran out, while the key was handled."""

    reason = "lease-lost"


class PermanentError(PillarboxError):
    """Raised by a listener of events to say that trying again would not help: the event is closed with this text."""


class Unavailable(PillarboxError):
    """The database could not do it now; nothing was acknowledged, so try again."""


class TooMany(Unavailable):
    """As many as this process takes are at it already; try again later."""


class DatabaseBusy(Unavailable):
    """No connection or write lock could be had in time."""


class DatabaseFull(Unavailable):
    """The disk has no room for another message."""


class UnsafeDatabase(PillarboxError):
    """A database or driver that could lose messages, refused at start."""


class SchemaTooNew(PillarboxError):
    """The schema was migrated by a newer Pillarbox than this one."""


class SettingsError(PillarboxError):
    """A setting that is unknown, malformed or contradicts another."""
