"""Secrets, addresses, bodies and header values are planted everywhere, and must come out nowhere they were not asked for."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.outbound.canaries import (
    ANSWER,
    BODY,
    ENDINGS,
    HEADER,
    IN_EXCERPTS,
    NUMBER,
    SECRETS,
    ending_in,
    leaks,
    messages,
    told,
)
from tests.outbound.end_to_end import PROVIDERS, SECRETS_KEY, TENANT
from tests.servers.daemon import Daemon
from tests.servers.provider_servers import Answer, ProviderServer, provider_server

SETTINGS: dict[str, object] = {
    "log.level": "debug",
    "secrets.key": SECRETS_KEY,
    "outbound.timeout_seconds": 0.5,
    "outbound.poll_seconds": 0.1,
    "outbound.backoff_base_seconds": 0.05,
    "outbound.max_attempts": 2,
    "http.public_url": "https://pillarbox.example",
}


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as server:
        server.arrange = lambda call: told(ending_in(call))
        yield server


def serving(url: str, server: ProviderServer, log_format: str, **settings: object) -> Daemon:
    base = {f"providers.{name}.base_url": server.origin for name in ("sendgrid", "twilio")}
    return Daemon(url, settings={**SETTINGS, **base, **settings, "log.format": log_format}, environ=SECRETS)


def put_tenant(daemon: Daemon, server: ProviderServer) -> None:
    body = {"name": "Acme", "providers": PROVIDERS, "settings": {"trusted_destinations": [server.origin]}}
    assert daemon.call("PUT", f"/v1/tenants/{TENANT}", body)[0] == 201


def metrics(daemon: Daemon) -> str:
    text = daemon.call("GET", "/metrics")[1]
    assert "pillarbox_msg_sent_total" in text
    return str(text)


@pytest.mark.parametrize(("database", "log_format"), [("sqlite", "text"), ("postgres", "json")])
def test_no_log_metric_error_or_list_tells_what_was_sent_or_with_which_secret(
    request: pytest.FixtureRequest, server: ProviderServer, database: str, log_format: str
) -> None:
    with serving(request.getfixturevalue(f"{database}_url"), server, log_format) as daemon:
        put_tenant(daemon, server)
        path = f"/v1/tenants/{TENANT}/messages"
        ids = []
        for ending in ENDINGS:
            for body in messages(ending, server.origin):
                status, answer = daemon.call("POST", path, body)
                assert status == 202, answer
                assert leaks(answer) == []
                ids.append(answer["message_id"])
        daemon.until("/v1/status", lambda status: _waiting(status["outbound"]) == 0)
        found = [daemon.call("GET", f"{path}/{message_id}")[1] for message_id in ids]
        listed = daemon.call("GET", path)[1]["items"]
        others = [daemon.call("GET", place)[1] for place in ("/v1/status", f"/v1/tenants/{TENANT}", "/v1/tenants")]
        shown = metrics(daemon)
        assert daemon.terminate() == 0
        logs = daemon.logs.whole() + daemon.out.whole()
    assert {message["status"] for message in found} == {"sent", "delivered", "failed"}
    assert len(listed) == len(ids) == 3 * len(ENDINGS)
    # What an operator asks for by id is shown; secrets and the values of headers are not, and no error quotes anything.
    asked_for = ("to_address", "subject", "body_text", "body_html")
    excerpts = [
        (attempt.pop("request"), attempt.pop("response")) for message in found for attempt in message["attempts"]
    ]
    told = [{name: value for name, value in message.items() if name not in asked_for} for message in found]
    assert leaks(told) == []
    assert leaks(excerpts, IN_EXCERPTS) == []
    assert sum(ANSWER in (answered or "") for _, answered in excerpts) >= 6, "refused, busy and moved, by two"
    assert HEADER not in json.dumps(found)
    assert leaks([{name: value for name, value in item.items() if name not in asked_for[:2]} for item in listed]) == []
    assert leaks(others) == []
    assert leaks(shown) == []
    assert logs.count("message_id") >= len(ids)
    assert leaks(logs) == []


@pytest.mark.parametrize(("database", "log_format"), [("sqlite", "json"), ("postgres", "text")])
def test_a_crash_in_the_middle_and_the_rescue_after_it_tell_nothing(
    request: pytest.FixtureRequest, server: ProviderServer, database: str, log_format: str
) -> None:
    url: str = request.getfixturevalue(f"{database}_url")
    server.arrange = lambda call: Answer(way="hang")
    patient = {"outbound.timeout_seconds": 30}
    with serving(url, server, log_format, **patient) as daemon:
        put_tenant(daemon, server)
        for body in messages("taken", server.origin):
            assert daemon.call("POST", f"/v1/tenants/{TENANT}/messages", body)[0] == 202
        server.expect(lambda calls: len(calls) == 3)
        daemon.kill()
        crashed = daemon.logs.whole() + daemon.out.whole()
    server.arrange = lambda call: None
    with serving(url, server, log_format, **patient) as daemon:
        daemon.until("/v1/status", lambda status: _waiting(status["outbound"]) == 0)
        found = daemon.call("GET", f"/v1/tenants/{TENANT}/messages")[1]["items"]
        whole = [daemon.call("GET", f"/v1/tenants/{TENANT}/messages/{each['message_id']}")[1] for each in found]
        shown = metrics(daemon)
        assert daemon.terminate() == 0
        rescued = daemon.logs.whole()
    assert [[attempt["outcome"] for attempt in message["attempts"]] for message in whole] == [
        ["unknown", "accepted"]
    ] * 3
    assert leaks([message["attempts"] for message in whole]) == []
    assert leaks(crashed + rescued + shown) == []


def test_no_refusal_quotes_what_was_handed_in(sqlite_url: str, server: ProviderServer) -> None:
    mail, text, hook = messages("taken", server.origin)
    too_deep: Any = BODY
    for _ in range(70):
        too_deep = [too_deep]
    wrong = [
        {**mail, "to": "canary.one@example.com, canary.two@example.com"},
        {**mail, "to": "canary at example.com"},
        {**mail, "subject": "canary-subject\r\nBcc: canary@example.com"},
        {**mail, "headers": {"X-Own": f"{HEADER}\r\nX: y"}},
        {**mail, "headers": {"Bcc": "canary@example.com"}},
        {**mail, "attachments": [{"filename": "a.txt", "path": "/canary/../etc/passwd"}]},
        {**mail, "attachments": [{"filename": "a.txt", "url": "http://user:canary@127.0.0.1/canary"}]},
        {**mail, "attachments": [{"filename": "a.txt", "content": "canary no base64"}]},
        {**mail, "text": f"{BODY}\x00"},
        {**mail, "category": "canary"},
        {**mail, "priority": "canary"},
        {**text, "to": f"{NUMBER}canary"},
        {**text, "text": BODY * 400},
        {**hook, "to": "https://user:canary@example.com/"},
        {**hook, "to": "http://canary.example.com/?token=canary"},
        {**hook, "to": "https://10.0.0.1/canary"},
        {**hook, "headers": {"Host": HEADER}},
        {**hook, "headers": {"X-Own": f"{HEADER}\n"}},
        {**hook, "body": too_deep},
        {**hook, "body": {"text": f"{BODY}\ud800"}},
        {**hook, "method": "CANARY"},
        {**hook, "send_at": "canary"},
    ]
    with serving(sqlite_url, server, "json") as daemon:
        put_tenant(daemon, server)
        path = f"/v1/tenants/{TENANT}/messages"
        problems = [daemon.call("POST", path, body) for body in wrong]
        assert daemon.call("POST", f"/v1/tenants/{TENANT}/opt-outs", {"contact": "canary.taken@example.com"})[0] == 201
        problems.append(daemon.call("POST", path, mail))
        assert daemon.call("GET", f"{path}?to={quote('canary at example.com')}") == (
            200,
            {"items": [], "next_cursor": None},
        )
        problems.append(
            daemon.call("POST", f"/v1/tenants/{TENANT}/opt-outs", {"contact": "canary one", "channel": "email"})
        )
        secret = {**PROVIDERS["email"], "credentials": {"api_key": "SG.canary-key"}}
        problems.append(daemon.call("PUT", f"/v1/tenants/{TENANT}", {"providers": {"email": secret}}))
        assert daemon.terminate() == 0
        logs = daemon.logs.whole()
    assert [(status, answer) for status, answer in problems if status not in (400, 409, 422)] == []
    assert [leaks(answer) for _, answer in problems if leaks(answer)] == []
    assert leaks(logs) == []
    assert server.calls == []


def _waiting(outbound: dict[str, int]) -> int:
    return outbound["pending"] + outbound["processing"] + outbound["failed"]
