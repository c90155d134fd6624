"""The chat platforms as a stand knows them: their secrets, a sound request of each, and the headers that prove one."""

import hashlib
import hmac
import time
from typing import Any

from tests.hostile.corpus.requests import Headers

SECRET = "a-secret-of-the-adapters"
SETTINGS: dict[str, Any] = {
    "default_session": "s1",
    "telegram": {"secret_token": SECRET},
    "whatsapp": {"app_secret": SECRET, "verify_token": SECRET},
    "slack": {"signing_secret": SECRET},
    "webhooks": {
        "shop": {
            "secret": SECRET,
            "proof": "hmac",
            "content_path": "data.text",
            "id_path": "data.id",
            "actor_name_path": "data.who",
        }
    },
}

TELEGRAM: dict[str, Any] = {
    "update_id": 1,
    "message": {
        "message_id": 7,
        "date": 1767225600,
        "chat": {"id": 42, "type": "private"},
        "from": {"id": 42, "is_bot": False, "first_name": "Ann"},
        "text": "Hello.",
    },
}
WHATSAPP: dict[str, Any] = {
    "object": "whatsapp_business_account",
    "entry": [
        {
            "id": "1",
            "changes": [
                {
                    "field": "messages",
                    "value": {
                        "contacts": [{"wa_id": "15005550006", "profile": {"name": "Ann"}}],
                        "messages": [
                            {"from": "15005550006", "id": "wamid.1", "type": "text", "text": {"body": "Hello."}}
                        ],
                    },
                }
            ],
        }
    ],
}
SLACK: dict[str, Any] = {
    "type": "event_callback",
    "event_id": "Ev1",
    "event": {"type": "message", "channel": "C1", "channel_type": "im", "user": "U1", "text": "Hello.", "ts": "1.1"},
}
SHOP: dict[str, Any] = {"data": {"id": "1", "text": "Hello.", "who": "Ann"}}


def proof(path: str, body: bytes) -> Headers:
    """What the platform would send along with exactly these bytes."""
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    if path.startswith("/adapters/telegram"):
        return (("x-telegram-bot-api-secret-token", SECRET),)
    if path.startswith("/adapters/slack"):
        now = str(int(time.time()))
        signed = hmac.new(SECRET.encode(), b"v0:%s:%s" % (now.encode(), body), hashlib.sha256).hexdigest()
        return (("x-slack-request-timestamp", now), ("x-slack-signature", f"v0={signed}"))
    return (("x-hub-signature-256", f"sha256={digest}"),) if path.startswith("/adapters/") else ()
