from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from pillarbox.inbound.targets.envelope import document, identity_headers
from tests.inbound.targets.messages import a_message


def test_the_document_has_every_promised_field() -> None:
    assert msgspec.json.decode(document(a_message(), node="n1")) == {
        "message_id": 41,
        "session_id": "s1",
        "seq": 7,
        "attempt": 3,
        "token": 12,
        "node": "n1",
        "origin": "telegram",
        "message_type": "text",
        "content": "Grüße, 世界 🙂",
        "payload": {"n": 18446744073709551615, "list": [1.5, None]},
        "actor": {"id": "u9", "name": "Ada", "avatar_url": None},
        "created_at": "2025-01-02T03:04:05.678901Z",
    }


def test_a_message_without_payload_says_null() -> None:
    assert msgspec.json.decode(document(a_message(payload_json=None), node="n1"))["payload"] is None


def test_instants_are_told_in_utc_whatever_zone_the_database_answers_in() -> None:
    created = datetime(2025, 6, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    told = msgspec.json.decode(document(a_message(created_at=created), node="n1"))["created_at"]
    assert told == "2025-06-01T10:00:00Z"


@pytest.mark.parametrize("content", ["line\nline\r\n", "\u2028", '"\\', "\x01"])
def test_the_document_is_one_line_whatever_the_content(content: str) -> None:
    body = document(a_message(content=content), node="n1")
    assert b"\n" not in body
    assert b"\r" not in body
    assert msgspec.json.decode(body)["content"] == content


def test_a_node_name_cannot_break_out_of_its_header() -> None:
    assert identity_headers(a_message(), node="a\r\nX: 1")["Pillarbox-Node"] == r"a\u000d\u000aX: 1"
