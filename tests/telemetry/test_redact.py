"""Redaction: what may be shown of addresses, secrets and errors."""

from __future__ import annotations

import base64
import time
from string import ascii_letters, digits
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pillarbox.telemetry import brief, mask, scrub

LETTERS = ascii_letters + digits


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("alice@Example.com", "***@example.com"),
        ("Alice <alice@example.com>", "***@example.com"),
        ("+1 (500) 555-0006", "***0006"),
        ("+15005550006", "***0006"),
        ("https://alice:pw@example.com/x", "***"),
        ("fcm-device-token", "***"),
        ("12345", "***"),
        ("@example.com", "***"),
        ("", "***"),
    ],
)
def test_an_address_shows_its_domain_or_last_four_digits_or_nothing(address: str, shown: str) -> None:
    assert mask(address) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("sent Bearer abc123, refused", "sent Bearer ***, refused"),
        ("Bearer token-123 Bearer auth_123", "Bearer *** Bearer ***"),
        ("bearer Bearer abc123", "bearer Bearer ***"),
        ("the bearer token is missing", "the bearer token is missing"),
        ("'authorization': 'Basic dXNlcg=='", "'authorization': '***'"),
        ("key whsec_MfKQ9r8GKYqrTwjU+/= used", "key *** used"),
        ("https://u:p@host.example/a?token=1#x end", "https://host.example/a end"),
        ("postgresql://u:p/w@host:5432/db", "postgresql://host:5432/db"),
        ("postgresql://u:p?w#@host/db", "postgresql://host/db"),
        ("https://host.example/?to=a:b@c.example", "https://host.example/"),
        ("http://127.0.0.1:8025/login?key=abc", "http://127.0.0.1:8025/login"),
        ("https://host.example:443/@alice", "https://host.example:443/@alice"),
        ("to alice+tag@example.com failed", "to ***@example.com failed"),
        ("<alice@example.com>: no such user", "<***@example.com>: no such user"),
        ("number +15005550006 is unreachable", "number ***0006 is unreachable"),
        ("password=x secret: y", "password=*** secret: ***"),
        ("api_key=12345678&a=b", "api_key=***&a=b"),
        (
            "https://api.telegram.org/bot123456:AAF-abcdefghijklmnopqrs/getMe",
            "https://api.telegram.org/bot***/getMe",
        ),
        ("digest " + "0f" * 16, "digest ***"),
        ("key 4f9Kd82LmQpX7vB1nR6tYw3Z", "key ***"),
    ],
)
def test_secrets_and_peoples_addresses_are_taken_out(text: str, shown: str) -> None:
    assert scrub(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "message 0192f3a4-7c1e-7abc-8def-0123456789ab",
        "sid SM0123456789abcdef0123456789abcdef",
        "token=42 attempt=3",
        'File "/usr/local/lib/python3/site-packages/pillarbox/telemetry/logs.py", line 12',
        "test_a_failed_message_holds_back_the_next_of_its_session",
        "2026-11-15T16:55:00.000000Z",
        "next attempt in 300 s",
    ],
)
def test_ids_paths_and_numbers_stay(text: str) -> None:
    assert scrub(text) == text


@given(st.uuids())
def test_a_uuid_always_stays(uuid: UUID) -> None:
    assert scrub(f"message {uuid} failed") == f"message {uuid} failed"


@given(before=st.text(), secret=st.text(LETTERS, min_size=8), after=st.text())
def test_a_bearer_token_never_survives(before: str, secret: str, after: str) -> None:
    assume(secret.lower() != "authentication" and secret not in before + after)
    assert secret not in scrub(f"{before} Bearer {secret} {after}")


@given(secret=st.binary(min_size=32, max_size=64))
def test_a_signing_secret_never_survives(secret: bytes) -> None:
    text = base64.b64encode(secret).decode()
    assert scrub(f"secret whsec_{text}.") == "secret ***."


@given(local=st.text(LETTERS + ".+-_", min_size=1), before=st.sampled_from(["", "to ", "<", "(", ":", "\n"]))
def test_a_mailbox_never_survives(local: str, before: str) -> None:
    assert scrub(f"{before}{local}@example.com") == f"{before}***@example.com"


@given(st.lists(st.sampled_from(["Bearer", "secret=", "a@b.c", "http://u:p@h?q", "whsec_x", "+15005550006", "***"])))
def test_what_is_scrubbed_stays_as_it_is_when_scrubbed_again(parts: list[str]) -> None:
    once = scrub(" ".join(parts))
    assert scrub(once) == once


@pytest.mark.parametrize("unit", ["a", "a://b:", "@", "+1", "a@", "bearer ", "http://", "a.", "://", '"', "1:", "="])
def test_hostile_text_is_scrubbed_in_linear_time(unit: str) -> None:
    began = time.thread_time()
    scrub(unit * (50_000 // len(unit)))
    assert time.thread_time() - began < 2


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (TimeoutError(), "TimeoutError"),
        (ValueError("refused by https://u:p@h.example/x?k=1"), "ValueError: refused by https://h.example/x"),
        (ValueError('answered 500: {"body": "private"}'), "ValueError: answered 500"),
        (ValueError("answered 502 <html>private"), "ValueError: answered 502"),
        (ValueError("duplicate key\nDETAIL: Key (x)=(private)"), "ValueError: duplicate key"),
        (ExceptionGroup("group", [ExceptionGroup("inner", [KeyError("a")])]), "KeyError: 'a'"),
    ],
)
def test_an_error_is_told_briefly_and_without_bodies(error: BaseException, shown: str) -> None:
    assert brief(error) == shown


@given(st.text())
def test_a_brief_error_is_one_short_line(text: str) -> None:
    told = brief(RuntimeError(text))
    assert len(told) <= 200
    assert "\n" not in told
    assert told.startswith("RuntimeError")
