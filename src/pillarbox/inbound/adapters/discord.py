"""Discord's messages and channels, however they are told: by the gateway or over REST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pillarbox.inbound.adapter import Received
from pillarbox.inbound.adapters.documents import at, items_at, number_at, text_at, without_gaps

ORIGIN = "discord"

# A message and a reply; every other type is one that Discord itself writes.
_SAID_BY_PEOPLE = (0, 19)
_THREADS = (10, 11, 12)
_WITH_MESSAGES = (0, 1, 2, 5, 13, *_THREADS)
_VOICE_MESSAGE = 1 << 13
_EPOCH_MILLISECONDS = 1_420_070_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Which guilds and channels are listened to, none meaning all; and whose session a thread belongs to."""

    guilds: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    direct_messages: bool = True
    threads: Literal["own", "parent"] = "own"


class Place(NamedTuple):
    """A channel, a thread or a direct conversation, as far as it is known."""

    guild: str | None = None
    parent: str | None = None
    name: str | None = None


class Told(NamedTuple):
    """A channel as Discord describes it, with the newest message it has."""

    channel: str
    place: Place
    newest: int


def snowflake(value: Any) -> int | None:
    """An id of Discord's as a number, or None where there is none."""
    usable = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19
    number = int(value) if usable else 0
    return number if 0 < number < 2**63 else None


def snowflake_of(seconds: float) -> int:
    """The id that a message of this moment would have, or a little less."""
    return max(int(seconds * 1000) - _EPOCH_MILLISECONDS, 1) << 22


def channels_in(guild: Any) -> Iterator[Told]:
    """The channels and open threads of a guild that can hold messages."""
    guild_id = text_at(guild, "id") or None
    for channel in (*items_at(guild, "channels"), *items_at(guild, "threads")):
        if (told := channel_in(channel, guild=guild_id)) is not None:
            yield told


def channel_in(channel: Any, *, guild: str | None = None) -> Told | None:
    """One channel, if it can hold messages; a category above it is not its parent."""
    if snowflake(at(channel, "id")) is None or number_at(channel, "type") not in _WITH_MESSAGES:
        return None
    parent = text_at(channel, "parent_id") if number_at(channel, "type") in _THREADS else ""
    place = Place(text_at(channel, "guild_id") or guild, parent or None, text_at(channel, "name") or None)
    return Told(text_at(channel, "id"), place, snowflake(at(channel, "last_message_id")) or 0)


def is_heard(listening: Listening, channel: str, place: Place) -> bool:
    """Whether messages of this place are listened to; a thread is where its parent is."""
    if place.guild is None:
        return listening.direct_messages
    if listening.guilds and place.guild not in listening.guilds:
        return False
    return not listening.channels or channel in listening.channels or place.parent in listening.channels


def message_in(message: Any, place: Place, *, threads: Literal["own", "parent"] = "own") -> Received | None:
    """The message of a person; bots, webhooks, this bot itself and what Discord announces are passed over."""
    number, channel = snowflake(at(message, "id")), text_at(message, "channel_id")
    if number is None or snowflake(channel) is None or at(message, "author", "bot") is True:
        return None
    if number_at(message, "type") not in (*_SAID_BY_PEOPLE, None) or at(message, "webhook_id") is not None:
        return None
    files = [_file(file) for file in items_at(message, "attachments") if text_at(file, "url")]
    content = _text(message)
    if not content and not files:
        return None
    chat = place.parent if threads == "parent" and place.parent is not None else channel
    voice = bool((number_at(message, "flags") or 0) & _VOICE_MESSAGE)
    return Received(
        origin=ORIGIN,
        channel_id=chat,
        source_message_id=str(number),
        message_type="text" if not files else "voice" if voice else "file",
        content=content,
        payload=without_gaps(
            **(files[0] | without_gaps(caption=content) if files else {}),
            more_files=files[1:],
            thread_id=channel if chat != channel else "",
            guild_id=place.guild,
            reply_to=text_at(message, "message_reference", "message_id"),
        ),
        actor_id=text_at(message, "author", "id") or None,
        actor_name=_name(message) or None,
        title=place.name if chat == channel else None,
    )


def _text(message: Any) -> str:
    """What was written, or forwarded; what can only be shown goes by its kind."""
    written = text_at(message, "content") or text_at(message, "message_snapshots", 0, "message", "content")
    if written:
        return written
    if names := [name for item in items_at(message, "sticker_items") if (name := text_at(item, "name"))]:
        return f"[sticker {names[0]}]"
    return "[poll]" if isinstance(at(message, "poll"), dict) else ""


def _file(file: Any) -> dict[str, Any]:
    return without_gaps(
        file_id=text_at(file, "id"),
        url=text_at(file, "url"),
        mime=text_at(file, "content_type"),
        size=number_at(file, "size"),
        seconds=at(file, "duration_secs"),
        name=text_at(file, "filename"),
    )


def _name(message: Any) -> str:
    """How people see the sender in that place."""
    author = at(message, "author")
    return text_at(message, "member", "nick") or text_at(author, "global_name") or text_at(author, "username")
