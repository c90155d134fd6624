"""The paths of the chat platforms, as data."""

from __future__ import annotations

from pillarbox.api import adapters
from pillarbox.api.call import Endpoint
from pillarbox.inbound.adapter import Taken

_PROBLEMS = (400, 403, 408, 413, 503)
_WHATSAPP = "/adapters/whatsapp"

ADAPTERS = (
    Endpoint(
        "GET",
        _WHATSAPP,
        adapters.whatsapp_challenge,
        "Meta's verification challenge",
        {200: str},
        query=adapters.Challenge,
        problems=(403,),
        media_type="text/plain",
        needs_key=False,
    ),
    Endpoint(
        "POST",
        _WHATSAPP,
        adapters.whatsapp_post,
        "Messages of WhatsApp's Cloud API, signed by Meta",
        {200: Taken},
        headers=("X-Hub-Signature-256",),
        problems=_PROBLEMS,
        needs_key=False,
    ),
    Endpoint(
        "POST",
        "/adapters/telegram",
        adapters.telegram_post,
        "An update of a Telegram bot's webhook",
        {200: Taken},
        headers=("X-Telegram-Bot-Api-Secret-Token",),
        problems=_PROBLEMS,
        needs_key=False,
    ),
    Endpoint(
        "POST",
        "/adapters/slack",
        adapters.slack_post,
        "An event of a Slack app, signed by Slack",
        {200: Taken},
        headers=("X-Slack-Signature", "X-Slack-Request-Timestamp"),
        problems=_PROBLEMS,
        needs_key=False,
    ),
    Endpoint(
        "POST",
        "/adapters/webhook/{name}",
        adapters.webhook_post,
        "JSON of any program that `[adapters.webhooks.NAME]` describes",
        {200: Taken},
        problems=_PROBLEMS,
        needs_key=False,
    ),
)
