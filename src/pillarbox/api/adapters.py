"""/adapters: where chat platforms post. They have no key of ours; each request is proven by the platform's own secret."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pillarbox.api.answers import Answer, ok
from pillarbox.api.bodies import not_json, read_body
from pillarbox.api.call import Call
from pillarbox.api.problems import Problem
from pillarbox.inbound.adapter import Received
from pillarbox.inbound.adapters import slack, telegram, webhook, whatsapp
from pillarbox.inbound.adapters.documents import NotJson, read_document, same
from pillarbox.settings.adapters import WebhookSource

PLAIN = b"text/plain; charset=utf-8"


class Challenge(
    msgspec.Struct,
    frozen=True,
    rename={"mode": "hub.mode", "verify_token": "hub.verify_token", "challenge": "hub.challenge"},
):
    """What Meta asks when the address is entered."""

    mode: str = ""
    verify_token: str = ""
    challenge: str = ""


async def whatsapp_challenge(call: Call) -> Answer:
    """Meta wants its challenge back from whoever knows the token."""
    asked: Challenge = call.query
    token = _required(call.box.settings.adapters.whatsapp.verify_token)
    if asked.mode != "subscribe" or not same(asked.verify_token, token):
        raise _unproven()
    return Answer(200, asked.challenge.encode(), PLAIN)


async def whatsapp_post(call: Call) -> Answer:
    secret = _required(call.box.settings.adapters.whatsapp.app_secret)
    body = await _body(call)
    if not whatsapp.is_signed(body, _header(call)(whatsapp.SIGNATURE), secret):
        raise _unproven()
    return await _take(call, whatsapp.messages_in(_document(body)))


async def telegram_post(call: Call) -> Answer:
    settings = call.box.settings.adapters.telegram
    if not same(_header(call)(telegram.SECRET), _required(settings.secret_token)):
        raise _unproven()
    update = _document(await _body(call))
    return await _take(call, [telegram.message_in(update, bot=telegram.bot_of(settings.bot_token))])


async def slack_post(call: Call) -> Answer:
    settings = call.box.settings.adapters.slack
    secret, header = _required(settings.signing_secret), _header(call)
    body = await _body(call)
    timestamp, signature = header(slack.TIMESTAMP), header(slack.SIGNATURE)
    if not slack.is_signed(body, timestamp, signature, secret=secret, now=_now(call)):
        raise _unproven()
    document = _document(body)
    if (challenge := slack.challenge_in(document)) is not None:
        return Answer(200, challenge.encode("utf-8", "replace"), PLAIN)
    return await _take(call, [slack.message_in(document, mentions_only=settings.listen_to == "mentions")])


async def webhook_post(call: Call) -> Answer:
    name, header = call.path["name"], _header(call)
    source = call.box.settings.adapters.webhooks.get(name, WebhookSource())
    secret = _required(source.secret)
    body = await _body(call)
    if not webhook.is_proven(
        body, header, proof=source.way_to_prove, name=source.header, secret=secret, now=_now(call)
    ):
        raise _unproven()
    return await _take(call, [webhook.message_in(_document(body), header, _places(name, source))])


async def _take(call: Call, messages: Iterable[Received | None]) -> Answer:
    """Store what is a message; 2xx means that it is on disk or never will be, and 503 that it should come again."""
    found = [message for message in messages if message is not None]
    return ok(await call.box.adapters.take_all(found))


async def _body(call: Call) -> bytes:
    return await read_body(call.receive, call.head.content_length)


def _document(body: bytes) -> Any:
    try:
        return read_document(body)
    except NotJson:
        raise not_json() from None


def _header(call: Call) -> Callable[[str], str | None]:
    """Reads a header that came exactly once."""
    headers: Iterable[tuple[bytes, bytes]] = call.scope["headers"]

    def read(name: str) -> str | None:
        values = [value for key, value in headers if key == name.encode("latin-1", "replace")]
        return values[0].decode("latin-1") if len(values) == 1 else None

    return read


def _places(name: str, source: WebhookSource) -> webhook.Places:
    return webhook.Places(
        origin=source.origin or name,
        channel_id=name,
        session=source.session,
        session_path=source.session_path,
        channel_path=source.channel_path,
        content_path=source.content_path,
        id_path=source.id_path,
        # Nobody has signed this header elsewhere.
        id_header=source.id_header or (webhook.WEBHOOK_ID if source.way_to_prove == "standard" else None),
        actor_id_path=source.actor_id_path,
        actor_name_path=source.actor_name_path,
    )


def _now(call: Call) -> float:
    clock = call.box.database.clock
    return clock.shown(clock.now()).timestamp()


def _required(secret: str | None) -> str:
    if not secret:
        raise Problem(
            403, "not-configured", "No secret is configured for this adapter; see [adapters] in the settings."
        )
    return secret


def _unproven() -> Problem:
    return Problem(403, "unproven", "The request does not carry the signature or secret that it needs, or is too old.")
