"""The one place where things are wired."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib import import_module
from random import Random
from typing import Any

from pillarbox import __version__
from pillarbox.audit import Act
from pillarbox.chats import wire_chats
from pillarbox.engine import Chore, Drain, Janitor
from pillarbox.errors import InvalidInput, PillarboxError, SettingsError
from pillarbox.examination import Key, check_spool
from pillarbox.hooks.pipe import Hooks
from pillarbox.hooks.spool import default_spool_dir
from pillarbox.inbound import Inbound
from pillarbox.inbox import Inbox, InboxStatus, SqlInbox
from pillarbox.keys import Keys
from pillarbox.opening import open_database, sqlite_path
from pillarbox.operators.attention import Attention
from pillarbox.operators.desk import Desk
from pillarbox.outbound.pipe import Outbound
from pillarbox.outlast import outlast
from pillarbox.policies import hooks_policy, inbound_policy, outbound_policy, providers_of, wire_adapters, wire_typing
from pillarbox.process import holder
from pillarbox.running import Running, side_by_side
from pillarbox.secrets import Sealer, open_sealer
from pillarbox.sessions import Sessions
from pillarbox.settings import Settings, load_settings
from pillarbox.settings.extras import require_extras
from pillarbox.storage import Database, News
from pillarbox.storage.backup import back_up, dump
from pillarbox.storage.checkup import Finding, checkup, network_share_of, require_schema
from pillarbox.storage.contents import check_contents
from pillarbox.storage.migrate import migrate as migrate_schema
from pillarbox.storage.migrate import rehearse
from pillarbox.storage.restore import Plan, Restored, look_at_restored, plan_restore, restore, take_over_from
from pillarbox.storage.scratch import scratch_file, scratch_schema
from pillarbox.telemetry import Metrics, brief, logger

__all__ = ["DEFAULT_DATABASE", "Finding", "Pillarbox", "Plan", "Restored", "back_up", "dump", "look_at_restored"]
__all__ += ["open_database", "plan_restore", "restore", "scratch_file", "scratch_schema", "sqlite_path"]
__all__ += ["take_over_from"]

log = logger(__name__)

_TEND_EVERY = 10.0
_CLEAN_AT_ONCE = 500
DEFAULT_DATABASE = "sqlite:///pillarbox.db"


class Pillarbox:
    """Durable two-way messaging on one database: open it, use its pipes, and let it run."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        node: str,
        key: Key | None = None,
        spool_dir: str | None = None,
    ) -> None:
        self.database = database
        self.settings = settings
        self.node = node
        self.metrics = Metrics(settings.metrics.prefix)
        random = Random()  # noqa: S311 - spreads retries, guards nothing
        self._key = key or Key(database, open_sealer(settings.secrets.key, sqlite_file=None))
        sealer = self._key.sealer
        self._take_in(spool_dir, random)
        self._send_out(sealer, random)
        self._join_chats(spool_dir)
        self._set_up_desk(sealer)
        self._janitor = Janitor(
            [
                *self.inbound.chores(),
                *self.hooks.chores(),
                *self.outbound.chores(),
                *self._desk.chores(),
                *self._chats.chores(),
                Chore("inbox.cleanup", settings.inbox.cleanup_seconds, self._clean_inbox),
                Chore("database.tend", _TEND_EVERY, self._tend),
            ],
            random=random,
        )
        self._running = Running(self._work, begin=self._begin, stop=self._stop)
        database.watch(self._heard)
        self.metrics.works.watch_database(lambda: database.waiting)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str | None = None,
        *,
        settings: Settings | Mapping[str, Any] | None = None,
        node: str | None = None,
        migrate: bool = True,
    ) -> AsyncIterator[Pillarbox]:
        """Open a database, bring its schema up to date, and close everything at the end.

        `settings` as a mapping, such as `{"outbound": {"max_attempts": 3}}`, stands over the file and the environment.
        """
        chosen = settings if isinstance(settings, Settings) else load_settings(**(settings or {}))
        address = url or os.environ.get("PILLARBOX_DATABASE") or DEFAULT_DATABASE
        database = await open_database(address, chosen)
        try:
            if migrate:
                await migrate_schema(database)
            spool_dir = chosen.hooks.spool_dir or default_spool_dir(address)
            key = await Key.find(database, chosen, address)
            if migrate:
                await key.require()
            box = cls(database, chosen, node=node or socket.gethostname(), key=key, spool_dir=spool_dir)
            try:
                yield box
            except BaseException:
                await outlast(box._close(in_a_hurry=True))
                raise
            else:
                await outlast(box._close(in_a_hurry=False))
        finally:
            await outlast(database.close())

    async def run(self) -> None:
        """Work until `stop` is called or the box is closed, when deliveries under way get the grace period to end, or until
        this is cancelled, when they are given back."""
        await self._running.run()

    async def _close(self, *, in_a_hurry: bool) -> None:
        """Close all parts, the last first, whatever becomes of each."""
        parts = (self.inbound, self.hooks, self.outbound, self._chats, self._desk, self.typing)
        async with AsyncExitStack() as closing:
            for part in parts:
                closing.push_async_callback(part.close)
            await self._running.leave(in_a_hurry=in_a_hurry)

    async def _work(self) -> None:
        require_extras(self.settings)
        # The HTTP client takes long to import; the first delivery must not pay for that out of its own time.
        await asyncio.to_thread(import_module, "aiohttp")
        await self._pick_up_spooled()
        chores = (self._janitor.run(), self.adapters.run(), self.nodes.run(), self._chats.run(), self.metrics.watch())
        grace = self.settings.shutdown.grace_seconds
        try:
            await side_by_side([drain.run(grace=grace) for drain in self._drains], chores)
        finally:
            self.database.ring()

    async def rehearse(self) -> None:
        """Write to the database without changing anything: raises `Unavailable` where a message would not be taken."""
        await rehearse(self.database)

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; answers the names of the migrations that this call applied."""
        return await migrate_schema(self.database)

    async def require_schema(self) -> None:
        """Refuse to go on with a schema that is older or newer than this program's, or without the database's own key."""
        await require_schema(self.database)
        await self._key.require()

    async def checkup(self) -> list[Finding]:
        """Look at the database, and at what receivers could not bring to it, as an operator would."""
        found = await checkup(self.database)
        # Only what is set up holds anything that could be damaged.
        contents = [await check_contents(self.database)] if await self._is_set_up() else []
        return [*found, *contents, await check_spool(self.hooks), await self._key.check()]

    async def advise(self) -> None:
        """Log what an operator should know of the place where the database lies."""
        if kind := await asyncio.to_thread(network_share_of, self.database):
            log.warning(
                "the database lies on a network file system and can be damaged there; use a local disk", kind=kind
            )

    def stop(self) -> None:
        """Let `run` come to its end: no new deliveries from now on; from any thread."""
        self._running.stop()

    def _begin(self) -> None:
        """Forget what stopped an earlier run."""
        self.adapters.begin()
        for drain in self._drains:
            drain.begin()

    def _stop(self) -> None:
        self.adapters.stop()
        for drain in self._drains:
            drain.stop()

    async def prune(self) -> tuple[int, bool]:
        """Delete a bounded number of what was kept long enough; answers how many, and whether there may be more."""
        messages = await self.inbound.prune()
        events, more_events = await self.hooks.prune()
        sent, more_sent = await self.outbound.prune()
        keys = await self._forget_keys()
        actions, more_actions = await self._desk.prune()
        more_words = await self.conversations.prune()
        more = messages.more or more_events or more_sent or more_actions or more_words or keys == _CLEAN_AT_ONCE
        if not more:
            await self.audit.note(Act("prune", "database", "all"))
        return messages.deleted + events + sent + keys + actions, more

    async def attention(self) -> Attention:
        """What needs an operator now, each with its age, its reason and what to do."""
        return await self._desk.attention.look()

    async def inbox_status(self) -> InboxStatus:
        """How many keys the inbox knows."""
        return await self._inbox_store.status()

    def _take_in(self, spool_dir: str | None, random: Random) -> None:
        database, settings, node = self.database, self.settings, self.node
        self.keys = Keys(database)
        self.sessions = Sessions(database)
        self.inbound = Inbound(
            database,
            sessions=self.sessions,
            policy=inbound_policy(settings),
            node=node,
            holder=holder(node),
            metrics=self.metrics,
            random=random,
        )
        self.adapters = wire_adapters(
            settings, self.inbound, self.sessions, database=database, node=node, random=random
        )
        self.hooks = Hooks(
            database,
            sessions=self.sessions,
            policy=hooks_policy(settings, spool_dir),
            holder=holder(node),
            metrics=self.metrics,
            random=random,
            confirm=self.inbound.confirming,
        )
        self.typing = wire_typing(
            settings, self.adapters, self.inbound, self.hooks, sessions=self.sessions, database=database
        )

    def _send_out(self, sealer: Sealer, random: Random) -> None:
        self.outbound = self._open_outbound(sealer, random)
        self.tenants = self.outbound.tenants
        self.tenants.revoke_keys = self.keys.revoke_tenant
        self._inbox_store = SqlInbox(self.database, retention=timedelta(days=self.settings.inbox.retention_days))
        self.inbox = Inbox(
            self._inbox_store, lease=self.settings.inbox.lease_seconds, answered=self.metrics.inbox.count_answer
        )

    def _join_chats(self, spool_dir: str | None) -> None:
        self._chats = wire_chats(
            self.settings,
            self.database,
            adapters=self.adapters,
            inbound=self.inbound,
            hooks=self.hooks,
            outbound=self.outbound,
            sessions=self.sessions,
            node=self.node,
            spool_dir=spool_dir,
        )
        self.conversations, self.media, self.commands = self._chats.parts
        self.conversations.after_reply.append(self.typing.replied)

    def _set_up_desk(self, sealer: Sealer) -> None:
        database, settings, node = self.database, self.settings, self.node
        desk = self._desk = Desk(
            database,
            outbound=self.outbound,
            inbound=self.inbound,
            hooks=self.hooks,
            sealer=sealer,
            node=node,
            holder=holder(node),
            version=__version__,
            public_url=settings.http.public_url,
            retention=timedelta(days=settings.audit.retention_days),
            totals=self.metrics.totals,
            concurrency=settings.inbound.concurrency + settings.hooks.concurrency + settings.outbound.concurrency,
        )
        self.audit, self.log, self.operations, self.nodes = desk.audit, desk.log, desk.operations, desk.nodes
        self.sandbox, self.embeds = desk.sandbox, desk.embeds

    def _open_outbound(self, sealer: Sealer, random: Random) -> Outbound:
        settings = self.settings
        outbound = Outbound(
            self.database,
            policy=outbound_policy(settings),
            providers=providers_of(settings),
            sealer=sealer,
            holder=holder(self.node),
            metrics=self.metrics,
            random=random,
        )
        try:
            outbound.check_policy()
        except InvalidInput as fault:
            raise SettingsError(str(fault)) from fault
        return outbound

    @property
    def _drains(self) -> Sequence[Drain[Any]]:
        """A node without the key must not claim what it could not open."""
        sending = [] if self._key.lacking else [self.outbound.drain]
        return [self.inbound.drain, self.hooks.drain, *sending]

    def _heard(self, news: News) -> None:
        self.inbound.heard(news)
        self.hooks.heard(news)
        self.outbound.heard(news)
        self._desk.heard()

    async def _pick_up_spooled(self) -> None:
        """What was spooled comes before what is claimed; if that fails now, its chore tries again."""
        try:
            await self.hooks.pick_up()
        except Exception as error:
            log.warning("the spool of hook events could not be picked up yet", error=brief(error))

    async def _is_set_up(self) -> bool:
        try:
            await require_schema(self.database)
        except PillarboxError:
            return False
        return True

    async def _clean_inbox(self) -> bool:
        return await self._forget_keys() == _CLEAN_AT_ONCE

    async def _forget_keys(self) -> int:
        removed = await self._inbox_store.cleanup(limit=_CLEAN_AT_ONCE)
        self.metrics.inbox.removed.inc(removed)
        return removed

    async def _tend(self) -> bool:
        await self.database.tend()
        return False
