"""A whole box that sends to the local providers, for tests that look from outside."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from pillarbox.box import Pillarbox
from pillarbox.outbound.model import NewTenant, OutboundMessage, TenantSettings
from pillarbox.settings import load_settings
from tests.servers.provider_servers import ACCOUNT_SID, ProviderServer

SECRETS_KEY = b64encode(b"k" * 32).decode()
SIGNING_SECRET = "whsec_" + b64encode(b"a signing secret of the tests!!!").decode()
CREDENTIALS = {
    "E2E_SENDGRID_KEY": "SG.a-key-of-the-tests",
    "E2E_TWILIO_SID": ACCOUNT_SID,
    "E2E_TWILIO_TOKEN": "a-token-of-the-tests",
    "E2E_SIGNING_SECRET": SIGNING_SECRET,
}
PROVIDERS: dict[str, dict[str, Any]] = {
    "email": {
        "provider": "sendgrid",
        "from": "Acme <hello@acme.example.com>",
        "credentials": {"api_key": "env:E2E_SENDGRID_KEY"},
    },
    "sms": {
        "provider": "twilio",
        "from": "+15005550006",
        "credentials": {"account_sid": "env:E2E_TWILIO_SID", "auth_token": "env:E2E_TWILIO_TOKEN"},
    },
    "webhook": {"provider": "webhook", "credentials": {"signing_secret": "env:E2E_SIGNING_SECRET"}},
}
TENANT = "acme"
NUMBER = "+15005550009"


@contextmanager
def credentials(values: Mapping[str, str] = CREDENTIALS) -> Iterator[None]:
    """The secrets that the tenant's references lead to, for as long as the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@asynccontextmanager
async def sending_box(
    url: str, server: ProviderServer, *, trusted: Iterable[str] = (), **outbound: object
) -> AsyncIterator[Pillarbox]:
    """A box whose providers are the server's, with one tenant that trusts it as a webhook's destination."""
    base = {"base_url": server.origin}
    settings = load_settings(
        environ={},
        outbound={"backoff_jitter": 0, **outbound},
        providers={"sendgrid": base, "twilio": base},
        secrets={"key": SECRETS_KEY},
    )
    with credentials():
        async with Pillarbox.open(url, settings=settings, node="here") as box:
            await put_tenant(box, trusted=(server.origin, *trusted))
            yield box


async def put_tenant(box: Pillarbox, *, trusted: Iterable[str] = ()) -> None:
    """Make the tenant, or change what it trusts."""
    settings = TenantSettings(trusted_destinations=tuple(trusted))
    await box.tenants.put(TENANT, NewTenant(providers=PROVIDERS, settings=settings))


async def drained(box: Pillarbox) -> None:
    """Make every attempt that is due."""
    while await box.outbound.drain.step():
        pass


async def until_ended(box: Pillarbox, message_id: str) -> OutboundMessage:
    """Make attempts until a message has ended."""
    while True:
        await drained(box)
        message = await box.outbound.get(message_id)
        if message.status not in ("pending", "retrying", "processing"):
            return message
