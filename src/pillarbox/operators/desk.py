"""Everything of an operator's desk, put together for one box."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from pillarbox.audit import Audit
from pillarbox.engine import Chore
from pillarbox.hooks.pipe import Hooks
from pillarbox.inbound import Inbound
from pillarbox.operators.attention import AttentionDesk
from pillarbox.operators.bulk import Bulk
from pillarbox.operators.embeds import Embeds
from pillarbox.operators.log import Log
from pillarbox.operators.nodes import Nodes
from pillarbox.operators.operations import Operations
from pillarbox.operators.sandbox import SandboxControls
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.providers.sandbox import Sandbox
from pillarbox.secrets.sealing import Sealer
from pillarbox.storage import Database

_OPERATIONS_EVERY = 1.0
_PRUNE_EVERY = 300.0


class Desk:
    """The log, the actions on many messages, the nodes, the sandbox's controls, links to embed, and what needs attention."""

    def __init__(
        self,
        database: Database,
        *,
        outbound: Outbound,
        inbound: Inbound,
        hooks: Hooks,
        sealer: Sealer,
        node: str,
        holder: str,
        version: str,
        concurrency: int,
        public_url: str | None,
        retention: timedelta,
        totals: Callable[[], Mapping[str, list[float]]],
    ) -> None:
        drains = (inbound.drain, hooks.drain, outbound.drain)
        self.audit = Audit(database)
        self.log = Log(database, outbound)
        self.operations = Operations(database, self.log, Bulk(outbound, inbound, hooks), holder=holder)
        self.nodes = Nodes(
            database,
            node=node,
            holder=holder,
            version=version,
            concurrency=concurrency,
            in_flight=lambda: sum(drain.in_flight for drain in drains),
            totals=totals,
        )
        sandbox = outbound.providers["sandbox"]
        assert isinstance(sandbox, Sandbox)
        self.sandbox = SandboxControls(database, self.log, sandbox)
        self.embeds = Embeds(database, sealer, public_url=public_url)
        self.attention = AttentionDesk(database, self.nodes)
        self._retention = retention

    def chores(self) -> Sequence[Chore]:
        return [
            Chore("operations", _OPERATIONS_EVERY, self.operations.step_all),
            Chore("nodes.forget", _PRUNE_EVERY, self.nodes.forget),
            Chore("audit.prune", _PRUNE_EVERY, self._prune),
        ]

    def heard(self) -> None:
        """Another process committed something."""
        self.log.heard()
        self.sandbox.heard()

    async def prune(self) -> tuple[int, bool]:
        """Forget a bounded number of actions that were kept long enough; how many, and whether there may be more."""
        await self.operations.prune(self._retention)
        return await self.audit.prune(self._retention)

    async def close(self) -> None:
        await self.operations.close()

    async def _prune(self) -> bool:
        return (await self.prune())[1]
