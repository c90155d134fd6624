"""Telegram's updates, however they come: by webhook or by polling."""

from __future__ import annotations

from typing import Any

from pillarbox.inbound.adapter import Received
from pillarbox.inbound.adapters.documents import at, items_at, number_at, text_at, without_gaps

ORIGIN = "telegram"
SECRET = "x-telegram-bot-api-secret-token"  # noqa: S105 - a header's name
UPDATES = ("message",)

# An animation is told a second time as a document, and a video note may be as well, so these come first.
_FILES = ("animation", "video_note", "audio", "document", "sticker", "video")
_SHOWN_BY_NAME = ("venue", "location", "contact", "poll", "dice")


def bot_of(bot_token: str | None) -> str:
    """The bot's id, which its token begins with; without a token it has no name."""
    return (bot_token or "").partition(":")[0] or "bot"


def message_in(update: Any, *, bot: str) -> Received | None:
    """The new message of a person; edits, posts of channels, service messages and other bots are passed over."""
    message = at(update, "message")
    chat, number = number_at(message, "chat", "id"), number_at(message, "message_id")
    said = _said(message)
    # Somebody who speaks as a group or a channel is shown as a bot in `from`.
    speaks_as = at(message, "sender_chat")
    if chat is None or number is None or said is None:
        return None
    if speaks_as is None and at(message, "from", "is_bot") is True:
        return None
    sender = speaks_as if speaks_as is not None else at(message, "from")
    message_type, content, payload = said
    actor = number_at(sender, "id")
    return Received(
        origin=ORIGIN,
        channel_id=str(chat),
        source_message_id=f"{bot}:{chat}:{number}",
        message_type=message_type,
        content=content,
        payload=without_gaps(
            **payload,
            # A reply where there are no topics has one too, that of the message it answers, which nothing can be sent to.
            thread_id=number_at(message, "message_thread_id") if at(message, "is_topic_message") is True else None,
            reply_to=number_at(message, "reply_to_message", "message_id"),
        ),
        actor_id=None if actor is None else str(actor),
        actor_name=_name(sender) or None,
        title=_name(at(message, "chat")) or None,
    )


def _said(message: Any) -> tuple[Any, str, dict[str, Any]] | None:
    """Type, text and payload of a message, or None when it is none of a person's."""
    if text := text_at(message, "text"):
        return "text", text, {}
    caption = text_at(message, "caption")
    if (voice := at(message, "voice")) is not None and text_at(voice, "file_id"):
        return "voice", caption, _file(voice, "voice", caption)
    if photos := [photo for photo in items_at(message, "photo") if text_at(photo, "file_id")]:
        largest = max(photos, key=lambda photo: (number_at(photo, "width") or 0) * (number_at(photo, "height") or 0))
        return "file", caption, _file(largest, "photo", caption)
    for kind in _FILES:
        if text_at(message, kind, "file_id"):
            return "file", caption, _file(at(message, kind), kind, caption)
    for kind in _SHOWN_BY_NAME:
        if (shown := at(message, kind)) is not None:
            return "text", f"[{kind}]", {kind: shown}
    return None


def _file(file: Any, kind: str, caption: str) -> dict[str, Any]:
    return without_gaps(
        file_id=text_at(file, "file_id"),
        kind=kind,
        mime=text_at(file, "mime_type"),
        size=number_at(file, "file_size"),
        seconds=number_at(file, "duration"),
        name=text_at(file, "file_name"),
        caption=caption,
    )


def _name(sender: Any) -> str:
    """How people see the sender: a name, a group's title, or the handle."""
    names = " ".join(filter(None, (text_at(sender, "first_name"), text_at(sender, "last_name"))))
    return names or text_at(sender, "title") or text_at(sender, "username")
