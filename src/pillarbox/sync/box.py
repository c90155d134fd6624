"""The box of a synchronous program."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from pillarbox.box import Finding
from pillarbox.box import Pillarbox as Box
from pillarbox.errors import InvalidInput
from pillarbox.inbox import InboxStatus
from pillarbox.operators.attention import Attention
from pillarbox.settings import Settings
from pillarbox.sync.hooks import Hooks
from pillarbox.sync.inbound import Inbound
from pillarbox.sync.inbox import Inbox
from pillarbox.sync.keys import Keys
from pillarbox.sync.operators import Audit, Embeds, Log, Nodes, Operations, SandboxControls
from pillarbox.sync.outbound import Outbound
from pillarbox.sync.sessions import Sessions
from pillarbox.sync.tenants import Tenants
from pillarbox.sync.thread import BoxThread
from pillarbox.telemetry import Metrics

_TIMEOUT = 60.0


class Pillarbox:
    """Durable two-way messaging on one database, for programs that do not await: a box in a background thread."""

    def __init__(self, thread: BoxThread) -> None:
        box = thread.box
        self._thread = thread
        self.sessions = Sessions(thread, box.sessions)
        self.inbound = Inbound(thread, box.inbound)
        self.hooks = Hooks(thread, box.hooks)
        self.outbound = Outbound(thread, box.outbound)
        self.tenants = Tenants(thread, box.tenants)
        self.inbox = Inbox(thread, box.inbox)
        self.keys = Keys(thread, box.keys)
        self.log = Log(thread, box.log)
        self.operations = Operations(thread, box.operations)
        self.nodes = Nodes(thread, box.nodes)
        self.audit = Audit(thread, box.audit)
        self.sandbox = SandboxControls(thread, box.sandbox)
        self.embeds = Embeds(thread, box.embeds)

    @classmethod
    def open(
        cls,
        url: str | None = None,
        *,
        settings: Settings | Mapping[str, Any] | None = None,
        node: str | None = None,
        migrate: bool = True,
        workers: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> Self:
        """Open a database and bring its schema up to date; `with` closes it, or `close`.

        With `workers` the background thread delivers and sends too. A call that takes longer than `timeout` seconds raises
        `Unavailable`; None waits for as long as it takes.
        """
        if timeout is not None and not 0 < timeout <= threading.TIMEOUT_MAX:
            raise InvalidInput("timeout", "must be a number of seconds above 0, or None.")
        return cls(
            BoxThread(
                lambda: Box.open(url, settings=settings, node=node, migrate=migrate), workers=workers, timeout=timeout
            )
        )

    @classmethod
    def shared(
        cls,
        url: str | None = None,
        *,
        settings: Settings | Mapping[str, Any] | None = None,
        node: str | None = None,
        timeout: float | None = _TIMEOUT,
    ) -> Pillarbox:
        """This process's box on a database, opened at the first call; a forked child gets one of its own.

        It is for servers that fork, such as gunicorn: ask for it where you use it. It ends with the process.
        """
        wanted = _Wanted(settings, node, timeout)
        with _shared.lock:
            if url not in _shared.boxes:
                _shared.boxes[url] = wanted, cls.open(url, settings=settings, node=node, timeout=timeout)
            known, box = _shared.boxes[url]
        if known != wanted:
            raise InvalidInput("settings", "this process shares that database already, and opened it otherwise.")
        return box

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close everything; deliveries under way get the grace period to end."""
        with _shared.lock:
            _shared.boxes = {url: shared for url, shared in _shared.boxes.items() if shared[1] is not self}
        self._thread.close()

    def run(self) -> None:
        """Deliver and send until `stop` is called or Ctrl-C comes; deliveries under way get the grace period to end."""
        self._thread.run()

    def stop(self) -> None:
        """Let `run` come to its end: no new deliveries from now on."""
        self._thread.tell(self._box.stop)

    def migrate(self) -> list[str]:
        """Bring the schema up to date; answers the names of the migrations that this call applied."""
        return self._thread.call_patiently(self._box.migrate)

    def require_schema(self) -> None:
        """Refuse to go on with a schema that is older or newer than this program's."""
        self._thread.call(self._box.require_schema)

    def rehearse(self) -> None:
        """Write to the database without changing anything: raises `Unavailable` where a message would not be taken."""
        self._thread.call(self._box.rehearse)

    def checkup(self) -> list[Finding]:
        """Look at the database, and at what receivers could not bring to it, as an operator would."""
        return self._thread.call(self._box.checkup)

    def advise(self) -> None:
        """Log what an operator should know of the place where the database lies."""
        self._thread.call(self._box.advise)

    def prune(self) -> tuple[int, bool]:
        """Delete a bounded number of what was kept long enough; answers how many, and whether there may be more."""
        return self._thread.call(self._box.prune)

    def attention(self) -> Attention:
        """What needs an operator now."""
        return self._thread.call(self._box.attention)

    def inbox_status(self) -> InboxStatus:
        """How many keys the inbox knows."""
        return self._thread.call(self._box.inbox_status)

    @property
    def settings(self) -> Settings:
        return self._box.settings

    @property
    def node(self) -> str:
        return self._box.node

    @property
    def metrics(self) -> Metrics:
        return self._box.metrics

    @property
    def _box(self) -> Box:
        return self._thread.box


class _Wanted(NamedTuple):
    settings: Settings | Mapping[str, Any] | None
    node: str | None
    timeout: float | None


class _Shared:
    """The shared boxes of this process. A child that is forked begins with none, and keeps its parent's from being closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.boxes: dict[str | None, tuple[_Wanted, Pillarbox]] = {}
        self._of_the_parent: list[Pillarbox] = []
        os.register_at_fork(after_in_child=self._begin_anew)

    def _begin_anew(self) -> None:
        # A thread of the parent may have held the lock in the moment of the fork.
        self.lock = threading.Lock()
        self._of_the_parent += (box for _, box in self.boxes.values())
        self.boxes = {}


_shared = _Shared()
