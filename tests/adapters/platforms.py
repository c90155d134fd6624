"""Each platform as its documentation describes it: what it posts, how it proves itself, and what we make of it."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Headers = list[tuple[str, str]]

APP_SECRET = "app-secret-of-the-tests"
VERIFY_TOKEN = "verify-token-of-the-tests"
BOT = "7000001"
BOT_TOKEN = f"{BOT}:a-token-of-the-tests"
SECRET_TOKEN = "secret-token-of-the-tests"
SIGNING_SECRET = "signing-secret-of-the-tests"
WHSEC = "whsec_" + base64.b64encode(b"a key of 32 bytes for the tests.").decode()


@dataclass(frozen=True)
class Said:
    """One message of a person."""

    number: int = 1
    text: str = "Hello."
    chat: str = "4915550001"
    name: str = "Ann"


@dataclass(frozen=True)
class Platform:
    """How one platform posts; `sign` takes the body, the secret and the second it signs at."""

    name: str
    path: str
    origin: str
    section: Mapping[str, Any]
    secret: str
    secret_name: str
    body: Callable[..., bytes]
    sign: Callable[[bytes, str, int], Headers]
    source_id: Callable[[Said], str]
    actor: Callable[[Said], tuple[str | None, str | None]]
    tells_time: bool = False
    signs_body: bool = True

    def __str__(self) -> str:
        return self.name

    def settings(self, *, secret: bool = True, **adapters: Any) -> dict[str, Any]:
        """`[adapters]` for this platform, with or without its secret."""
        section = dict(self.section)
        if not secret:
            del section[self.secret_name]
        key, _, name = self.name.partition(".")
        return {**adapters, key: {name: section} if name else section}

    def proof(self, body: bytes, *, secret: str | None = None, at: int | None = None) -> Headers:
        return self.sign(body, self.secret if secret is None else secret, int(time.time()) if at is None else at)


def mac(secret: bytes, signed: bytes) -> bytes:
    return hmac.new(secret, signed, hashlib.sha256).digest()


def whatsapp_message(said: Said, **content: Any) -> dict[str, Any]:
    told = content or {"type": "text", "text": {"body": said.text}}
    return {"from": said.chat, "id": f"wamid.{said.chat}.{said.number}", "timestamp": "1749416383", **told}


def whatsapp_body(*said: Said | dict[str, Any], **value: Any) -> bytes:
    messages = [whatsapp_message(each) if isinstance(each, Said) else each for each in said]
    contacts = [{"profile": {"name": each.name}, "wa_id": each.chat} for each in said if isinstance(each, Said)]
    metadata = {"display_phone_number": "15550783881", "phone_number_id": "106540352242922"}
    inside = {
        "messaging_product": "whatsapp",
        "metadata": metadata,
        "contacts": contacts,
        "messages": messages,
        **value,
    }
    change = {"value": inside, "field": "messages"}
    return json.dumps({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}).encode()


def telegram_update(said: Said, **content: Any) -> dict[str, Any]:
    return {
        "update_id": 900_000 + said.number,
        "message": {
            "message_id": said.number,
            "from": {"id": int(said.chat), "is_bot": False, "first_name": said.name},
            "chat": {"id": int(said.chat), "first_name": said.name, "type": "private"},
            "date": 1_749_416_383,
            **(content or {"text": said.text}),
        },
    }


def telegram_body(said: Said, **content: Any) -> bytes:
    return json.dumps(telegram_update(said, **content)).encode()


def slack_event(said: Said, **content: Any) -> dict[str, Any]:
    event = {"type": "message", "channel": said.chat, "user": "U1", "text": said.text, "ts": "1355517523.000005"}
    return {
        "type": "event_callback",
        "team_id": "T1",
        "event_id": f"Ev{said.number}",
        "event_time": 1_355_517_523,
        "event": {**event, "channel_type": "channel", **content},
    }


def slack_body(said: Said, **content: Any) -> bytes:
    return json.dumps(slack_event(said, **content)).encode()


def shop_body(said: Said) -> bytes:
    customer = {"id": 17, "name": said.name}
    return json.dumps({"data": {"note": said.text, "thread": said.chat, "id": said.number, "by": customer}}).encode()


def sign_slack(body: bytes, secret: str, at: int) -> Headers:
    signature = mac(secret.encode(), b"v0:%d:%s" % (at, body)).hex()
    return [("X-Slack-Request-Timestamp", str(at)), ("X-Slack-Signature", f"v0={signature}")]


def sign_standard(body: bytes, secret: str, at: int) -> Headers:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(mac(key, b"msg_1.%d.%s" % (at, body))).decode()
    stated = [("webhook-id", "msg_1"), ("webhook-timestamp", str(at))]
    return [*stated, ("webhook-signature", f"v1a,bm9uZQ== v1,{signature}")]


SHOP = {
    "content_path": "data.note",
    "channel_path": "data.thread",
    "id_path": "data.id",
    "actor_id_path": "data.by.id",
    "actor_name_path": "data.by.name",
}

WHATSAPP = Platform(
    "whatsapp",
    "/adapters/whatsapp",
    "whatsapp",
    {"app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN},
    APP_SECRET,
    "app_secret",
    whatsapp_body,
    lambda body, secret, at: [("X-Hub-Signature-256", f"sha256={mac(secret.encode(), body).hex()}")],
    lambda said: f"wamid.{said.chat}.{said.number}",
    lambda said: (said.chat, said.name),
)
TELEGRAM = Platform(
    "telegram",
    "/adapters/telegram",
    "telegram",
    # Nobody is there to be shown anything.
    {"bot_token": BOT_TOKEN, "secret_token": SECRET_TOKEN, "poll": False, "base_url": "http://127.0.0.1:9"},
    SECRET_TOKEN,
    "secret_token",
    telegram_body,
    lambda body, secret, at: [("X-Telegram-Bot-Api-Secret-Token", secret)],
    lambda said: f"{BOT}:{said.chat}:{said.number}",
    lambda said: (said.chat, said.name),
    signs_body=False,
)
SLACK = Platform(
    "slack",
    "/adapters/slack",
    "slack",
    {"signing_secret": SIGNING_SECRET},
    SIGNING_SECRET,
    "signing_secret",
    slack_body,
    sign_slack,
    lambda said: f"Ev{said.number}",
    lambda said: ("U1", None),
    tells_time=True,
)
STANDARD = Platform(
    "webhooks.shop",
    "/adapters/webhook/shop",
    "shop",
    {"secret": WHSEC, **SHOP},
    WHSEC,
    "secret",
    shop_body,
    sign_standard,
    lambda said: str(said.number),
    lambda said: ("17", said.name),
    tells_time=True,
)
HMAC = Platform(
    "webhooks.till",
    "/adapters/webhook/till",
    "till",
    {"secret": "a till's secret", "proof": "hmac", "header": "X-Till-Signature", **SHOP},
    "a till's secret",
    "secret",
    shop_body,
    lambda body, secret, at: [("X-Till-Signature", base64.b64encode(mac(secret.encode(), body)).decode())],
    lambda said: str(said.number),
    lambda said: ("17", said.name),
)
TOKEN = Platform(
    "webhooks.bell",
    "/adapters/webhook/bell",
    "door",
    {"secret": "a bell's token", "proof": "token", "origin": "door", **SHOP},
    "a bell's token",
    "secret",
    shop_body,
    lambda body, secret, at: [("Authorization", f"Bearer {secret}")],
    lambda said: str(said.number),
    lambda said: ("17", said.name),
    signs_body=False,
)
PLATFORMS = [WHATSAPP, TELEGRAM, SLACK, STANDARD, HMAC, TOKEN]
