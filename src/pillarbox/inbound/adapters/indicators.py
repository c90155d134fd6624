"""How each platform is told that somebody is writing: one request each, and how long that lasts."""

from __future__ import annotations

import msgspec

from pillarbox.inbound.adapters import discord, telegram, whatsapp
from pillarbox.inbound.adapters.documents import number_at, text_at, without_gaps
from pillarbox.inbound.typing import Chat, Indicator, Request

_PER_SECOND = 10.0


def telegram_indicator(base_url: str, bot_token: str) -> Indicator:
    """`sendChatAction`; it goes out after five seconds or with the next message."""

    def request(chat: Chat) -> Request:
        thread = number_at(chat.payload, "thread_id")
        body = without_gaps(chat_id=chat.channel_id, action="typing", message_thread_id=thread)
        return Request(f"{base_url}/bot{bot_token}/sendChatAction", {}, msgspec.json.encode(body))

    return Indicator(telegram.ORIGIN, request, refresh_seconds=4.0, per_second=_PER_SECOND)


def discord_indicator(base_url: str, bot_token: str) -> Indicator:
    """The typing endpoint of a channel or thread; it goes out after ten seconds."""
    headers = {"Authorization": f"Bot {bot_token}", "User-Agent": "DiscordBot (pillarbox, 1)"}

    def request(chat: Chat) -> Request | None:
        channel = text_at(chat.payload, "thread_id") or chat.channel_id
        if discord.snowflake(channel) is None:
            return None
        return Request(f"{base_url}/channels/{channel}/typing", headers, b"{}")

    return Indicator(discord.ORIGIN, request, refresh_seconds=8.0, per_second=_PER_SECOND)


def whatsapp_indicator(base_url: str, access_token: str) -> Indicator:
    """Marks the message as read and shows the indicator; it goes out after 25 seconds or with the answer."""
    headers = {"Authorization": f"Bearer {access_token}"}

    def request(chat: Chat) -> Request | None:
        number = text_at(chat.payload, "phone_number_id")
        if not number.isascii() or not number.isdigit() or not chat.source_message_id:
            return None
        body = {
            "messaging_product": "whatsapp",
            "status": "read",
            "message_id": chat.source_message_id,
            "typing_indicator": {"type": "text"},
        }
        return Request(f"{base_url}/{number}/messages", headers, msgspec.json.encode(body))

    return Indicator(whatsapp.ORIGIN, request, refresh_seconds=20.0, per_second=_PER_SECOND, by_message=True)
