"""What the settings say about chats: how they are written to, and what becomes of the files they send."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from pillarbox.conversations.bot_name import TelegramBotName
from pillarbox.conversations.commands import BotName, Commands
from pillarbox.conversations.drafts import ORIGINS, Desk
from pillarbox.conversations.pipe import Conversations
from pillarbox.conversations.policy import ConversationsPolicy
from pillarbox.conversations.previews import Previews
from pillarbox.engine import Chore
from pillarbox.hooks.pipe import Hooks
from pillarbox.inbound import Inbound
from pillarbox.inbound.adapter import Adapters
from pillarbox.inbound.targets.targets import IsWorking
from pillarbox.media.fetch import Fetcher
from pillarbox.media.model import MediaPolicy, Platform
from pillarbox.media.stage import Media
from pillarbox.media.store import MediaStore
from pillarbox.media.transcribe import HttpTranscriber, Transcriber, WhisperTranscriber
from pillarbox.outbound.client import Client
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import ProviderPolicy
from pillarbox.process import holder
from pillarbox.sessions import Sessions
from pillarbox.settings import Settings
from pillarbox.storage import Database

_DISCORD_API = "/api/v10"


@dataclass(frozen=True, slots=True)
class Chats:
    """What is between agents and people beside the messages themselves."""

    conversations: Conversations
    media: Media
    commands: Commands
    previews: Previews | None

    @property
    def parts(self) -> tuple[Conversations, Media, Commands]:
        return self.conversations, self.media, self.commands

    def chores(self) -> list[Chore]:
        return [*self.conversations.chores(), *self.media.chores()]

    async def run(self) -> None:
        """Tell chats what agents say, and show them what they do, until cancelled."""
        aside = [] if self.previews is None else [asyncio.create_task(self.previews.run())]
        try:
            await self.conversations.run()
        finally:
            for task in aside:
                task.cancel()
            await asyncio.gather(*aside, return_exceptions=True)

    async def close(self) -> None:
        await self.media.close()


def wire_chats(
    settings: Settings,
    database: Database,
    *,
    adapters: Adapters,
    inbound: Inbound,
    hooks: Hooks,
    outbound: Outbound,
    sessions: Sessions,
    node: str,
    spool_dir: str | None,
) -> Chats:
    """Connect the pipes where chats and agents need each other."""
    policy = conversations_policy(settings)
    conversations = Conversations(database, outbound=outbound, sessions=sessions, policy=policy, node=node)
    client = Client()
    media = _media(settings, database, client, folder=media_folder(database, spool_dir))
    commands = Commands(database, inbound, origins=policy.origins, bot_names=_bot_names(settings, database, client))
    inbound.prepare = media.prepare
    inbound.ask_whether_working(working_by_hooks(hooks, inbound, database, policy))
    adapters.with_files = media.begin
    adapters.join = conversations.join
    if settings.conversations.commands:
        adapters.commands = commands.obey
    return Chats(conversations, media, commands, _previews(settings, database, client, hooks, node=node))


def media_folder(database: Database, spool_dir: str | None) -> str:
    """Beside an SQLite file; for a server, where this user's programs keep their state."""
    file = getattr(database, "path", None)
    if file and file != ":memory:":
        return f"{os.path.realpath(file)}.media"
    return f"{spool_dir or os.path.join(tempfile.gettempdir(), f'pillarbox-{os.geteuid()}')}.media"


def chat_tokens(settings: Settings) -> dict[str, str]:
    """What opens each platform for replies, by the name of its setting."""
    given = settings.adapters
    tokens = {
        "adapters.telegram.bot_token": given.telegram.bot_token,
        "adapters.discord.bot_token": given.discord.bot_token,
        "adapters.slack.bot_token": given.slack.bot_token,
        "adapters.whatsapp.access_token": given.whatsapp.access_token,
    }
    return {name: token for name, token in tokens.items() if token is not None}


def chat_providers(settings: Settings) -> Iterator[tuple[str, ProviderPolicy]]:
    """Where the platforms are, where the adapters were told another place than their makers' own."""
    given = settings.adapters
    yield "telegram", ProviderPolicy(given.telegram.base_url)
    yield "discord", ProviderPolicy(given.discord.base_url.removesuffix(_DISCORD_API))
    yield "slack", ProviderPolicy(given.slack.base_url)
    yield "whatsapp", ProviderPolicy(given.whatsapp.base_url)


def conversations_policy(settings: Settings) -> ConversationsPolicy:
    numbers = settings.conversations
    origins = {name.split(".")[1] for name in chat_tokens(settings)} if numbers.replies else set()
    return ConversationsPolicy(
        origins=frozenset(origins),
        look=numbers.look_seconds,
        retention=timedelta(days=numbers.retention_days),
        quiet=numbers.quiet_seconds,
        busy_at_most=timedelta(seconds=numbers.busy_limit_seconds),
        phone_number_id=settings.adapters.whatsapp.phone_number_id,
        threaded=numbers.threaded,
        default_session=settings.adapters.default_session,
        default_session_tells=settings.adapters.default_session_tells,
    )


def _bot_names(settings: Settings, database: Database, client: Client) -> dict[str, BotName]:
    """Where people name the bot that they mean."""
    given = settings.adapters.telegram
    if given.bot_token is None:
        return {}
    desk = Desk("telegram", given.base_url, given.bot_token)
    return {"telegram": TelegramBotName(client, desk, database.clock.monotonic).get}


def _previews(settings: Settings, database: Database, client: Client, hooks: Hooks, *, node: str) -> Previews | None:
    """Shows what agents do, where that is wanted; where it is not any more, still takes away what was shown."""
    desks = {
        name: Desk(name, platform.base_url, platform.token)
        for name, platform in _platforms(settings)
        if platform.token is not None and name in ORIGINS
    }
    if not desks:
        return None
    numbers = settings.conversations
    previews = Previews(
        database,
        client,
        desks,
        every=numbers.preview_seconds,
        holder=holder(node),
        silent_at_most=numbers.busy_limit_seconds,
        monotonic=database.clock.monotonic,
    )
    if numbers.previews:
        hooks.on("user_prompt_submit", "tool_use", "agent_stop", "error")(previews.note)
    return previews


def _media(settings: Settings, database: Database, client: Client, *, folder: str) -> Media:
    """The stage that fetches files and understands speech, as far as the settings allow."""
    numbers = settings.media
    policy = MediaPolicy(
        max_bytes=numbers.max_bytes,
        max_total_bytes=numbers.max_total_bytes,
        fetch_timeout=numbers.fetch_timeout_seconds,
        retention=timedelta(days=numbers.retention_days),
        attempts=numbers.transcription.attempts,
    )
    return Media(
        database,
        store=MediaStore(numbers.folder or folder, max_total_bytes=policy.max_total_bytes),
        fetcher=Fetcher(client, dict(_platforms(settings)), policy),
        transcriber=_transcriber(settings, client),
        policy=policy,
        client=client,
    )


def working_by_hooks(hooks: Hooks, inbound: Inbound, database: Database, policy: ConversationsPolicy) -> IsWorking:
    """Whether an agent is at work, by what its hooks told last; one that tells nothing for long is not.

    One that was just given a message is at work on it, though its hooks have had no time to say so.
    """
    clock = database.clock

    async def is_working(session_id: str) -> bool:
        state = await hooks.agent_state(session_id)
        if state is None:
            return False
        now = clock.shown(clock.now())
        if state.turn == "working":
            return state.last_activity + policy.busy_at_most > now
        given_at = (await inbound.queue(session_id)).last_activity
        return given_at is not None and state.last_activity < given_at and now < given_at + policy.begins_within

    return is_working


def _platforms(settings: Settings) -> Iterator[tuple[str, Platform]]:
    """A server of the operator's own may tell addresses on itself; the makers' are guarded like anybody's."""
    given = settings.adapters
    tokens = {
        "telegram": (given.telegram.base_url, given.telegram.bot_token),
        "discord": (given.discord.base_url, given.discord.bot_token),
        "slack": (given.slack.base_url, given.slack.bot_token),
        "whatsapp": (given.whatsapp.base_url, given.whatsapp.access_token),
    }
    for name, (base_url, token) in tokens.items():
        parts = urlsplit(base_url)
        yield name, Platform(base_url, token, frozenset({f"{parts.scheme}://{parts.netloc}"}))


def _transcriber(settings: Settings, client: Client) -> Transcriber | None:
    given = settings.media.transcription
    match given.engine:
        case "none":
            return None
        case "whisper":
            return WhisperTranscriber(given.model, given.language, given.timeout_seconds)
        case "http":
            return HttpTranscriber(
                client, given.base_url, given.api_key, given.model, given.language, given.timeout_seconds
            )
