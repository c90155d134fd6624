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
├── SecretUnavailable       a reference or a sealed value that cannot be read here and now
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


class IdempotencyMismatch(InvalidInput):
    """The idempotency key was used before, for another message."""


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


class OptedOut(Refused):
    """The recipient does not want messages of this kind; a canceled record of the message is kept."""

    reason = "opted-out"

    def __init__(self, sentence: str, message_id: str | None = None, *, replayed: bool = False) -> None:
        super().__init__(sentence)
        self.message_id = message_id
        self.replayed = replayed


class NotCancelable(Refused):
    """The message is being sent or has ended, so that it cannot be canceled."""

    reason = "not-cancelable"


class NotRetryable(Refused):
    """The message has not ended unsent, so that there is nothing to try again."""

    reason = "not-retryable"


class TenantBusy(Refused):
    """The tenant has messages waiting; cancel them or let them go first."""

    reason = "tenant-busy"


class ChangedMeanwhile(Refused):
    """Somebody else changed it after it was read; read it again, and change that."""

    reason = "changed-meanwhile"


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


class SecretUnavailable(PillarboxError):
    """A secret cannot be read here and now; the text names where it should be, never what it is."""


class SettingsError(PillarboxError):
    """A setting that is unknown, malformed or contradicts another."""
