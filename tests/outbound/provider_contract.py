"""What every provider that takes HTTP requests promises; a provider is finished when it passes."""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import CHANNELS
from pillarbox.outbound.provider import Account, Attachment, HttpProvider, Outgoing, Request, Response, Verdict

FIXTURES = Path(__file__).parent / "fixtures"
AT = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
MESSAGE_ID = "01932d6e-7c3a-7000-8000-00000000000a"
CANARY = "canary-in-the-answer"

STRANGE_BODIES = [
    b"",
    b"null",
    b"[]",
    b"{",
    b'"text"',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"code": true, "sid": 5, "id": {}, "errors": {}}',
    b'{"code": "x", "sid": "two words", "id": "", "message_id": null}',
    b'{"code": 1e400}',
    json.dumps(dict.fromkeys(("code", "message", "sid", "id", "error", "errors"), CANARY + "\n")).encode(),
    json.dumps({"errors": [{"message": CANARY, "field": CANARY, "code": CANARY}], "error": {"code": CANARY}}).encode(),
    f"<html><title>{CANARY}</title></html>".encode(),
    b"x" * 65536,
]
INJECTIONS = ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "a\x85b", "a\u2028b"]


@dataclass(frozen=True)
class Stage:
    """A provider, what it is given, and the answers it is documented to give."""

    provider: HttpProvider
    documented: Mapping[str, Any]

    def message(self, **changes: Any) -> Outgoing:
        given = dict(self.documented["message"])
        if isinstance(given.get("body"), str):
            given["body"] = given["body"].encode()
        facts: dict[str, Any] = {
            "message_id": MESSAGE_ID,
            "tenant_id": "acme",
            "attempt": 1,
            "at": AT,
            "created_at": AT,
        }
        return Outgoing(**(facts | given | changes))

    def account(self, **secrets: str) -> Account:
        base_url = self.provider.base_url and "https://provider.example/base"
        return Account(base_url, self.documented.get("options", {}), {**self.documented.get("secrets", {}), **secrets})

    def request(self, **changes: Any) -> Request:
        return self.provider.request(self.message(**changes), self.account())


def documented(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def body_of(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer["body"]).encode() if "body" in answer else answer.get("text", "").encode()


def judgement_of(status: int) -> str:
    if 200 <= status <= 299:
        return "accepted"
    if status in (408, 425, 429) or status >= 500:
        return "transient"
    return "rejected" if status >= 300 else "unknown"


def strings_in(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, item in value.items():
                yield from strings_in(name)
                yield from strings_in(item)
        case list():
            for item in value:
                yield from strings_in(item)


def texts_of(request: Request) -> Iterator[str]:
    """All a request says, the strings inside a JSON body or a form included."""
    yield from (request.method, request.url, *request.headers, *request.headers.values())
    if request.headers.get("content-type") == "application/x-www-form-urlencoded":
        yield from strings_in(parse_qs(request.body.decode(), strict_parsing=True))
    elif request.body:
        yield from strings_in(json.loads(request.body))


def places_of(secret: str, request: Request) -> set[str]:
    """Where a secret can be read, in plain text or in base64."""
    found = {"url"} if secret in request.url else set()
    found |= {"body"} if secret.encode() in request.body else set()
    for name, value in request.headers.items():
        decoded = b64decode(value.removeprefix("Basic ")).decode() if value.startswith("Basic ") else ""
        if secret in value or secret in decoded:
            found.add(f"headers.{name.lower()}")
    return found


class ProviderContract:
    """To be inherited by a class in a file that has a fixture `stage` of the module's scope."""

    def test_it_says_what_it_carries_and_what_it_needs(self, stage: Stage) -> None:
        provider = stage.provider
        assert re.fullmatch(r"[a-z][a-z0-9_-]*", provider.name)
        assert provider.channels
        assert provider.channels <= set(CHANNELS)
        assert stage.message().channel in provider.channels
        named = [*provider.credentials, *provider.optional_credentials, *provider.options]
        assert len(named) == len(set(named))
        assert "from" not in named
        assert set(stage.documented.get("secrets", {})) <= {*provider.credentials, *provider.optional_credentials}
        assert provider.base_url == "" or re.fullmatch(r"https://[^/]+", provider.base_url)

    def test_every_documented_answer_gets_its_verdict(self, stage: Stage) -> None:
        assert stage.documented["answers"]
        for answer in stage.documented["answers"]:
            response = Response(answer["status"], answer.get("headers", {}), body_of(answer), AT)
            expected = Verdict(status_code=answer["status"], **answer["verdict"])
            assert stage.provider.verdict(response) == expected, answer["case"]

    def test_answers_of_every_judgement_are_documented(self, stage: Stage) -> None:
        judgements = {answer["verdict"]["judgement"] for answer in stage.documented["answers"]}
        assert judgements >= {"accepted", "rejected", "transient"}

    def test_any_status_is_judged_and_no_body_is_quoted(self, stage: Stage) -> None:
        for status in range(100, 600):
            for body in STRANGE_BODIES:
                headers = {"x-request-id": CANARY, "location": CANARY, "server": CANARY}
                verdict = stage.provider.verdict(Response(status, headers, body, AT))
                assert verdict.judgement == judgement_of(status), status
                assert verdict.status_code == status
                assert verdict.provider_msg_id is None
                assert (verdict.error is None) == (verdict.judgement == "accepted")
                assert CANARY not in (verdict.error or "")
                assert str(status) in (verdict.error or str(status))

    @settings(suppress_health_check=[HealthCheck.differing_executors])
    @given(
        status=st.integers(100, 599),
        headers=st.dictionaries(
            st.sampled_from(["retry-after", "date", "x-ratelimit-reset", "x-message-id"]), st.text()
        ),
        body=st.binary()
        | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()),
    )
    def test_no_answer_breaks_it(self, stage: Stage, status: int, headers: dict[str, str], body: bytes) -> None:
        verdict = stage.provider.verdict(Response(status, headers, body))
        assert verdict.retry_after is None or verdict.retry_after > 0

    def test_a_request_has_the_same_bytes_each_time(self, stage: Stage) -> None:
        assert stage.request() == stage.request()
        assert [*stage.request().headers] == [*stage.request().headers]

    def test_a_later_attempt_asks_for_the_same_message(self, stage: Stage) -> None:
        first, second = stage.request(), stage.request(attempt=2)
        assert (first.method, first.url, first.body) == (second.method, second.url, second.body)

    def test_it_goes_where_the_operator_says(self, stage: Stage) -> None:
        if not stage.provider.base_url:
            assert stage.request().url == stage.message().to
            return
        for base_url in ("http://127.0.0.1:9/base", "http://127.0.0.1:9/base/"):
            account = replace(stage.account(), base_url=base_url)
            url = stage.provider.request(stage.message(), account).url
            assert url.startswith("http://127.0.0.1:9/base/")
            assert "//" not in url.removeprefix("http://")

    def test_secrets_are_only_where_they_are_documented(self, stage: Stage) -> None:
        for name, secret in stage.documented.get("secrets", {}).items():
            assert places_of(secret, stage.request()) == set(stage.documented["secrets_appear_in"][name]), name

    @pytest.mark.parametrize("evil", INJECTIONS)
    def test_a_secret_of_two_lines_is_refused_or_encoded(self, stage: Stage, evil: str) -> None:
        for name in stage.documented.get("secrets", {}):
            try:
                told = [*texts_of(stage.provider.request(stage.message(), stage.account(**{name: evil})))]
            except InvalidInput as refused:
                told = [str(refused)]
            assert all(evil not in text for text in told)

    @pytest.mark.parametrize("evil", INJECTIONS)
    @pytest.mark.parametrize(
        "field",
        [
            "to",
            "sender",
            "subject",
            "reply_to",
            "cc",
            "bcc",
            "headers",
            "names",
            "method",
            "files",
            "kinds",
            "unsubscribe_url",
        ],
    )
    def test_nothing_can_be_injected(self, stage: Stage, field: str, evil: str) -> None:
        inside: dict[str, dict[str, Any]] = {
            "cc": {"cc": [f"{evil}@example.com"]},
            "bcc": {"bcc": [f"{evil}@example.com"]},
            "headers": {"headers": {"X-Note": evil}},
            "names": {"headers": {evil: "x"}},
            "files": {"attachments": [Attachment(evil, "text/plain", b"x")]},
            "kinds": {"attachments": [Attachment("x.txt", evil, b"x")]},
        }
        try:
            request = stage.request(**inside.get(field, {field: evil}))
        except InvalidInput:
            return
        assert all(evil not in text for text in texts_of(request))

    @pytest.mark.parametrize("status", [429, 503])
    def test_retry_after_is_a_wait_in_seconds(self, stage: Stage, status: int) -> None:
        ours, theirs = AT, AT.replace(hour=9)
        ahead = format_datetime(AT.replace(minute=2), usegmt=True)
        for headers, at, wait in [
            ({"retry-after": "120"}, ours, 120),
            ({"retry-after": " 7 "}, None, 7),
            ({"retry-after": ahead}, ours, 120),
            ({"retry-after": ahead, "date": format_datetime(theirs, usegmt=True)}, ours, 3 * 3600 + 120),
            ({"retry-after": ahead}, None, None),
            ({"retry-after": format_datetime(theirs, usegmt=True)}, ours, None),
            *(
                ({"retry-after": useless}, ours, None)
                for useless in ("-5", "0", "", "soon", "1e3", "٣", "Fri, 99 Foo 2026")
            ),
        ]:
            verdict = stage.provider.verdict(Response(status, headers, b"", at))
            assert (verdict.judgement, verdict.retry_after) == ("transient", wait), headers

    def test_a_refusal_for_good_asks_for_no_wait(self, stage: Stage) -> None:
        assert stage.provider.verdict(Response(404, {"retry-after": "120"}, b"", AT)).retry_after is None


async def at_once() -> None:
    """Begin: nobody has opted out."""
