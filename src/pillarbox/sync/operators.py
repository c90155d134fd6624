"""What operators look at and do, without awaiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Literal

from pillarbox.audit import Audit as AsyncAudit
from pillarbox.audit import OperatorAction
from pillarbox.filters import EVERYTHING, Filter
from pillarbox.operators.bulk import Action
from pillarbox.operators.embeds import DEFAULT_SECONDS, Embedded, EmbedLink
from pillarbox.operators.embeds import Embeds as AsyncEmbeds
from pillarbox.operators.log import Log as AsyncLog
from pillarbox.operators.model import Count, Left, LogItem, Stretch
from pillarbox.operators.nodes import Node, Totals
from pillarbox.operators.nodes import Nodes as AsyncNodes
from pillarbox.operators.operations import Operation
from pillarbox.operators.operations import Operations as AsyncOperations
from pillarbox.operators.sandbox import Control
from pillarbox.operators.sandbox import SandboxControls as AsyncSandboxControls
from pillarbox.outbound.model import Channel, MessageItem
from pillarbox.outbound.providers.sandbox import Trouble
from pillarbox.sync.following import one_by_one
from pillarbox.sync.thread import BoxThread


class Log:
    """Looks at every pipe through one filter."""

    def __init__(self, thread: BoxThread, log: AsyncLog) -> None:
        self._thread = thread
        self._log = log

    def page(self, wanted: Filter = EVERYTHING, *, cursor: str = "", limit: int = 100) -> Stretch[LogItem]:
        """Messages and events that match, from where the page before ended."""
        return self._thread.call(self._log.page, wanted, cursor=cursor, limit=limit)

    def messages(
        self, tenant_id: str, wanted: Filter = EVERYTHING, *, cursor: str = "", limit: int = 100
    ) -> Stretch[MessageItem]:
        """One tenant's outbound messages that match, as its own list shows them."""
        return self._thread.call(self._log.messages, tenant_id, wanted, cursor=cursor, limit=limit)

    def count(self, wanted: Filter) -> Count:
        """How many match, exactly up to ten thousand of them."""
        return self._thread.call(self._log.count, wanted)

    @contextmanager
    def follow(self, wanted: Filter = EVERYTHING, *, tenant_id: str = "") -> Iterator[Iterator[LogItem | Left | None]]:
        """What comes in, changes or no longer matches from now on; None now and then while nothing does."""
        with one_by_one(self._thread, self._log.follow(wanted, tenant_id=tenant_id)) as changes:
            yield changes


class Operations:
    """Begins actions on all that match, and carries them out wherever a process has time for it."""

    def __init__(self, thread: BoxThread, operations: AsyncOperations) -> None:
        self._thread = thread
        self._operations = operations

    def preview(self, action: Action, wanted: Filter) -> Count:
        """How many an action would be done to: of what matches only that counts which it can be done to."""
        return self._thread.call(self._operations.preview, action, wanted)

    def start(self, action: Action, wanted: Filter) -> Operation:
        """Begin an action on all that match now; it goes on by itself, here or on another node, and after a restart."""
        return self._thread.call(self._operations.start, action, wanted)

    def finish(self, operation_id: str) -> Operation:
        """Carry an operation out to its end, unless somebody else does."""
        return self._thread.call_patiently(self._operations.finish, operation_id)

    def get(self, operation_id: str) -> Operation:
        """The one of that id; raises `NotFound` where there is none."""
        return self._thread.call(self._operations.get, operation_id)

    def list(self, *, limit: int = 100, before: str = "") -> list[Operation]:
        """Operations, the newest first."""
        return self._thread.call(self._operations.list, limit=limit, before=before)

    def stop(self, operation_id: str) -> Operation:
        """End an operation where it is: what was done stays done, and nothing more is."""
        return self._thread.call(self._operations.stop, operation_id)


class Nodes:
    """Shows the processes on this database."""

    def __init__(self, thread: BoxThread, nodes: AsyncNodes) -> None:
        self._thread = thread
        self._nodes = nodes

    def list(self) -> list[Node]:
        """Every process that was seen within a day, by name."""
        return self._thread.call(self._nodes.list)

    def totals(self) -> dict[str, tuple[datetime, Totals]]:
        """What each process that is at work has done since it started, by its holder, and when it said so."""
        return self._thread.call(self._nodes.totals)


class Audit:
    """What operators did."""

    def __init__(self, thread: BoxThread, audit: AsyncAudit) -> None:
        self._thread = thread
        self._audit = audit

    def list(
        self, *, subject: tuple[str, str] | None = None, limit: int = 100, before: str = ""
    ) -> list[OperatorAction]:
        """Actions, the newest first: all of them, or those on one subject such as `("message", id)`."""
        return self._thread.call(self._audit.list, subject=subject, limit=limit, before=before)


class SandboxControls:
    """What the sandbox is to do next, kept in the database so that every process obeys."""

    def __init__(self, thread: BoxThread, sandbox: AsyncSandboxControls) -> None:
        self._thread = thread
        self._sandbox = sandbox

    def arrange(self, trouble: Trouble, *, channel: Channel | Literal["all"] = "all", times: int = 1) -> Control:
        """Let the next sends of a channel fail, be throttled, hang, or end nobody knows how."""
        return self._thread.call(self._sandbox.arrange, trouble, channel=channel, times=times)

    def list(self) -> list[Control]:
        """What is arranged, in the order in which it will happen."""
        return self._thread.call(self._sandbox.list)

    def clear(self) -> None:
        """Let the sandbox behave well again."""
        self._thread.call(self._sandbox.clear)

    def mailbox(self, *, cursor: str = "", limit: int = 100) -> Stretch[MessageItem]:
        """The messages that the sandbox was given, the newest first."""
        return self._thread.call(self._sandbox.mailbox, cursor=cursor, limit=limit)


class Embeds:
    """Makes links to a tenant's messages, and reads them."""

    def __init__(self, thread: BoxThread, embeds: AsyncEmbeds) -> None:
        self._thread = thread
        self._embeds = embeds

    def make(self, tenant_id: str, *, expires_in: int = DEFAULT_SECONDS, origin: str | None = None) -> EmbedLink:
        """A link to a tenant's messages; `origin` is the site that may show it in a frame."""
        return self._thread.call(self._embeds.make, tenant_id, expires_in=expires_in, origin=origin)

    def open(self, token: str) -> Embedded | None:
        """What a link lets its holder see; None for one that is not ours, has expired, or was revoked."""
        return self._thread.call(self._embeds.open, token)

    def revoke(self, tenant_id: str) -> None:
        """Make every link that was made for a tenant worthless."""
        self._thread.call(self._embeds.revoke, tenant_id)
