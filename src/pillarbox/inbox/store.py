"""What every inbox store promises."""

from __future__ import annotations

from typing import Any, Protocol

from pillarbox.inbox.model import Begun, LeaseAnswer, Sighting


class InboxStore(Protocol):
    """A lease on a key while somebody works, and a memory of the key afterwards.

    Each verb is atomic, and when it returns its effect is as durable as the store can make it. `Unavailable` means that the
    store could not be asked, and that the call may or may not have taken effect; every verb may then be repeated:

    - At any moment at most one caller has a lease on a key that is not over. Time is the store's own, never the caller's.
    - A lease is named by its `lease_id`. A verb with a lease that was taken over, given up or never given changes nothing
      and answers `LeaseLost`; so do `extend` and `release` of a key that is processed.
    - A lease that is over, and that nobody took over, is still its holder's: it may be extended, marked and released.
    - `Processed` stays until the store's retention is over, counted from the mark; nothing else ends it.
    - Repeated with the same `lease_id` a verb answers as before: `mark_processed` keeps the first result, `release` answers
      `Released` until somebody else begins, `try_begin` answers `Acquired` again while that lease is held, and never
      takes a lease again that it has given up.
    - A `fingerprint` names what the key stands for, such as the digest of a request's body. While the key is leased, in
      time or not, or processed, another fingerprint is a `Mismatch`, whoever asks; one that was not given is not
      compared. A key that was released takes whatever comes next.

    Arguments are checked by the door, `Inbox`; a store may be given any text without NUL and unpaired surrogates.
    """

    async def try_begin(
        self,
        key: str,
        *,
        lease: float,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        """Take the key for `lease` seconds, or say why not; a `lease_id` of the caller's own makes the call repeatable."""

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        """Let the lease end `lease` seconds from now: `Extended` with the true end."""

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        """Remember the key, with a JSON value of at most 64 KiB for those who come later: `Processed`."""

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        """Give the lease up, so that another may begin at once: `Released`."""

    async def look(self, key: str) -> Sighting:
        """What is known of a key; a lease that is over shows as `Free`, because anybody may take it."""

    async def close(self) -> None:
        """Give back what the store itself opened."""
