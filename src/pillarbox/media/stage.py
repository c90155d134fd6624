"""The stage before a delivery: a file becomes a path that its reader can open, and speech becomes words."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from pillarbox.engine import Chore, Outcome, Retry
from pillarbox.inbound.adapter import Received
from pillarbox.inbound.enrichment import ended_before, enrich
from pillarbox.inbound.model import InboundMessage
from pillarbox.media.fetch import Fetcher
from pillarbox.media.leftovers import Leftovers
from pillarbox.media.model import Entry, Full, Gone, Kept, MediaPolicy, NotNow, Reference, digest_of, references_in
from pillarbox.media.store import MediaStore
from pillarbox.media.transcribe import Transcriber
from pillarbox.outbound.client import Client
from pillarbox.storage import Database
from pillarbox.telemetry import brief, logger

_log = logger(__name__)

_PRUNE_EVERY = 300.0
_SWEEP_EVERY = 3600.0
_LEFT_FOR_SECONDS = 86_400.0
_PRUNED_AT_ONCE = 500
_MOST_FETCHED = 8
_MOST_HEARD = 4
_MOST_FILES = 20
_NO_ROOM = "the media folder is full"
_NO_WORDS = "no words were heard in it"


class Media:
    """Fetches what people send as soon as it is on record, and again before a delivery if that did not work out.

    Whatever was begun goes on when the attempt that wanted it is over, so that the next one finds it done.
    """

    def __init__(
        self,
        database: Database,
        *,
        store: MediaStore,
        fetcher: Fetcher,
        transcriber: Transcriber | None,
        policy: MediaPolicy,
        client: Client,
    ) -> None:
        self._client = client
        self._database = database
        self._store = store
        self._leftovers = Leftovers(store)
        self._swept_up_to = ""
        self._fetcher = fetcher
        self._transcriber = transcriber
        self._policy = policy
        self._working: dict[int, asyncio.Task[Entry]] = {}
        self._fetching = asyncio.Semaphore(_MOST_FETCHED)
        self._listening = asyncio.Semaphore(_MOST_HEARD)
        self._pruned_up_to = 0

    def begin(self, message_id: int, received: Received) -> None:
        """Start to fetch the files of a message that was just stored, beside everything else."""
        if received.message_type != "text":
            wanted = references_in(
                received.payload,
                origin=received.origin,
                channel_id=received.channel_id,
                message_id=received.source_message_id,
            )
            _ = self._work(message_id, wanted, speaks=received.message_type == "voice")

    async def prepare(self, message: InboundMessage) -> InboundMessage | Outcome:
        """The message with its files here and its words known; a Retry where that has to wait."""
        payload = json.loads(message.payload_json) if message.payload_json else None
        if message.message_type == "text" or not isinstance(payload, dict):
            return message
        wanted = references_in(
            payload,
            origin=message.origin,
            channel_id=message.source_channel_id,
            message_id=message.source_message_id,
        )
        speaks = message.message_type == "voice" and "transcript" not in payload
        try:
            entry = await asyncio.shield(self._work(message.id, wanted, speaks=speaks))
        except Full as fault:
            if message.attempt_count < self._policy.attempts:
                return Retry(str(fault))
            # What is said behind it does not wait for room, for which the operator has to see.
            entry = await self._without_files(message.id, wanted)
        except NotNow as fault:
            return Retry(str(fault))
        if speaks and entry.unheard and message.attempt_count < self._policy.attempts:
            return Retry(entry.unheard)
        return await self._enriched(message, payload, entry)

    async def close(self) -> None:
        """Let go of what is under way; it begins anew with the next attempt."""
        for task in self._working.values():
            task.cancel()
        await asyncio.gather(*self._working.values(), return_exceptions=True)
        await self._client.close()

    def chores(self) -> Sequence[Chore]:
        return [Chore("media.prune", _PRUNE_EVERY, self.prune), Chore("media.sweep", _SWEEP_EVERY, self.sweep)]

    async def prune(self) -> bool:
        """Delete files of messages that ended long enough ago; answers whether there may be more."""
        ids = await asyncio.to_thread(self._store.messages, _PRUNED_AT_ONCE, self._pruned_up_to)
        self._pruned_up_to = ids[-1] if len(ids) == _PRUNED_AT_ONCE else 0
        if not ids:
            return False
        before = self._database.clock.now() - self._policy.retention
        over = await self._database.read(partial(ended_before, ids, before))
        await asyncio.to_thread(self._store.forget, over)
        return len(ids) == _PRUNED_AT_ONCE

    async def sweep(self) -> bool:
        """Remove from the next part of the folder what crashes left there a day ago or longer; answers whether there are more."""
        parts = [part for part in await asyncio.to_thread(self._leftovers.parts) if part > self._swept_up_to]
        self._swept_up_to = parts[0] if parts else ""
        if not parts:
            return False
        before = time.time() - _LEFT_FOR_SECONDS
        if marks := await asyncio.to_thread(self._leftovers.look, parts[0], before):
            ids = sorted({mark.message_id for mark in marks})
            ended = self._database.clock.now() - self._policy.retention
            over = set(await self._database.read(partial(ended_before, ids, ended)))
            await asyncio.to_thread(self._leftovers.remove, [mark for mark in marks if mark.message_id in over])
        return True

    def _work(self, message_id: int, wanted: Sequence[Reference], *, speaks: bool) -> asyncio.Task[Entry]:
        """One piece of work for each message, whoever asks for it first."""
        if message_id not in self._working:
            task = asyncio.create_task(self._gather(message_id, wanted[:_MOST_FILES], speaks))
            self._working[message_id] = task
            task.add_done_callback(partial(self._worked, message_id))
        return self._working[message_id]

    def _worked(self, message_id: int, task: asyncio.Task[Entry]) -> None:
        self._working.pop(message_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.info("a file has to be fetched again before its message goes", id=message_id, cause=brief(error))

    async def _gather(self, message_id: int, wanted: Sequence[Reference], speaks: bool) -> Entry:
        entry = await self._known(message_id, wanted)
        for place, reference in enumerate(wanted):
            if entry.files[place].is_wanted:
                async with self._fetching:
                    kept = await self._kept(message_id, reference)
                files = (*entry.files[:place], kept, *entry.files[place + 1 :])
                entry = msgspec.structs.replace(entry, files=files)
                await asyncio.to_thread(self._store.write, message_id, entry)
        if speaks and self._transcriber is not None and entry.transcript is None and entry.files:
            async with self._listening:
                entry = await self._heard(entry, wanted[0])
            await asyncio.to_thread(self._store.write, message_id, entry)
        return entry

    async def _known(self, message_id: int, wanted: Sequence[Reference]) -> Entry:
        """What is known here of these files; those of another database's message are not."""
        about = digest_of(wanted)
        entry = await asyncio.to_thread(self._store.entry, message_id)
        if entry is None or entry.about != about or len(entry.files) != len(wanted):
            chat = wanted[0].chat if wanted else ""
            return Entry(about=about, chat=chat, files=(Kept(),) * len(wanted))
        return entry

    async def _without_files(self, message_id: int, wanted: Sequence[Reference]) -> Entry:
        """What is here, and why the rest is not; it is not written down, as another attempt may find room."""
        entry = await self._known(message_id, wanted[:_MOST_FILES])
        files = [Kept(trouble=_NO_ROOM) if kept.is_wanted else kept for kept in entry.files]
        return msgspec.structs.replace(entry, files=tuple(files))

    async def _kept(self, message_id: int, reference: Reference) -> Kept:
        if (reference.size or 0) <= self._policy.max_bytes:
            await asyncio.to_thread(self._store.room.require, reference.size or 0, reference.chat)
        try:
            content = await self._fetcher.fetch(reference)
        except Gone as fault:
            return Kept(trouble=str(fault))
        return await asyncio.to_thread(self._store.put, message_id, content, reference)

    async def _heard(self, entry: Entry, reference: Reference) -> Entry:
        path = entry.files[0].path
        if path is None or self._transcriber is None:
            return entry
        try:
            words = await self._transcriber.words(path, mime=reference.mime)
        except Gone as fault:
            return _wordless(entry, str(fault))
        except NotNow as fault:
            return msgspec.structs.replace(entry, unheard=str(fault))
        if not words:
            return _wordless(entry, _NO_WORDS)
        return msgspec.structs.replace(entry, transcript=words, unheard=None)

    async def _enriched(self, message: InboundMessage, payload: dict[str, Any], entry: Entry) -> InboundMessage:
        """The row as its target will see it, written down under the claim, so that another attempt does no work again."""
        learned = _learned(message, payload, entry)
        if learned != message:
            await self._database.write(partial(enrich, learned))
        return learned


def _wordless(entry: Entry, why: str) -> Entry:
    """A recording that will never be words arrives as a file, with the reason."""
    kept = msgspec.structs.replace(entry.files[0], trouble=why)
    return msgspec.structs.replace(entry, files=(kept, *entry.files[1:]), transcript="", unheard=None)


def _learned(message: InboundMessage, payload: dict[str, Any], entry: Entry) -> InboundMessage:
    """The message with paths and words; a recording whose words were there for its first attempt is a text from then on."""
    files = [msgspec.to_builtins(kept) for kept in entry.files]
    told = {**payload, **(files[0] if files else {})}
    if entry.unheard:
        told["trouble"] = entry.unheard.rstrip(".")
    content, message_type = message.content, message.message_type
    if entry.transcript and "transcript" not in payload:
        told["transcript"] = entry.transcript
        told.pop("trouble", None)
        content = "\n".join(filter(None, (message.content, entry.transcript)))
        message_type = "text" if message.attempt_count <= 1 and len(files) == 1 else message_type
    if isinstance(payload.get("more_files"), list):
        told["more_files"] = [{**each, **kept} for each, kept in zip(payload["more_files"], files[1:], strict=False)]
    payload_json = json.dumps(told, ensure_ascii=False)
    if (content, payload) == (message.content, told):
        return message
    return msgspec.structs.replace(message, message_type=message_type, content=content, payload_json=payload_json)
