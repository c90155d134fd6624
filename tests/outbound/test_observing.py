"""What is logged of attempts names no file."""

import logging
import socket

import pytest

from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import NewAttachment
from pillarbox.settings import load_settings
from tests.outbound.end_to_end import SECRETS_KEY, until_ended


async def test_a_file_that_cannot_be_had_is_named_to_its_tenant_and_not_in_the_log(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_settings(environ={}, secrets={"key": SECRETS_KEY})
    with socket.socket() as nobody, caplog.at_level(logging.DEBUG):
        nobody.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box:
            trusted = {"trusted_destinations": [origin]}
            await box.tenants.set("acme", providers={"email": {"provider": "sandbox"}}, settings=trusted)
            attachments = [NewAttachment(filename="file-canary.pdf", url=f"{origin}/x")]
            email = Email(to="ann@example.com", text="Hi", max_attempts=1, attachments=attachments)
            message = await until_ended(box, await box.outbound.send("acme", email))
    assert "file-canary.pdf" in (message.error_message or "")
    assert "not sent" in caplog.text
    assert "file-canary" not in caplog.text
