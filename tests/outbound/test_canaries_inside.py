"""The same canaries within one process: in spans, in what a clumsy provider raises, and in the database file."""

import logging
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pillarbox.box import Pillarbox
from pillarbox.outbound.model import Channel, NewMessage, NewTenant, OutboundMessage
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.outbound.providers import Providers, providers
from pillarbox.settings import Settings, load_settings
from tests.outbound.canaries import BODY, ENDINGS, HEADER, SECRETS, ending_in, leaks, messages, told
from tests.outbound.end_to_end import PROVIDERS, SECRETS_KEY, TENANT, credentials, drained
from tests.servers.provider_servers import ProviderServer, provider_server


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as server:
        server.arrange = lambda call: told(ending_in(call))
        yield server


class Clumsy:
    """A provider of somebody else's that fails loudly with everything it was given."""

    name = "clumsy"
    channels: frozenset[Channel] = frozenset({"email", "sms", "webhook"})
    credentials: tuple[str, ...] = ("api_key",)
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await begin()
        given = f"canary {message.to} {message.text} {dict(message.headers)} {dict(account.secrets)}"
        raise (RuntimeError if message.channel == "email" else ExceptionGroup)(*_told_in(message, given))


def _told_in(message: Outgoing, given: str) -> tuple[Any, ...]:
    return (given,) if message.channel == "email" else (given, [ValueError(given)])


def with_clumsy(settings: Settings) -> Providers:
    return providers(Clumsy())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, tracing = InMemorySpanExporter(), TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", tracing.get_tracer)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", tracing)
    return exporter


async def test_an_attempt_is_part_of_the_trace_in_which_its_message_was_sent(
    sqlite_url: str, server: ProviderServer, spans: InMemorySpanExporter
) -> None:
    with credentials(SECRETS):
        async with Pillarbox.open(sqlite_url, settings=_in_process(server)) as box:
            await box.tenants.put(TENANT, NewTenant(providers=PROVIDERS))
            with trace.get_tracer("test").start_as_current_span("checkout") as checkout:
                ids = await _send_all(box, server.origin, ("taken",))
            found = await _until_ended(box, ids)
    attempts = [span for span in spans.get_finished_spans() if span.name.startswith("send ")]
    assert len(attempts) == sum(message.attempt_count for message in found)
    assert {span.context.trace_id for span in attempts} == {checkout.get_span_context().trace_id}


async def _send_all(box: Pillarbox, origin: str, endings: tuple[str, ...]) -> list[str]:
    new = [msgspec.convert(body, NewMessage) for ending in endings for body in messages(ending, origin)]
    return [(await box.outbound.put(TENANT, each)).message_id for each in new]


def _in_process(server: ProviderServer) -> Settings:
    base = {"base_url": server.origin}
    outbound = {"timeout_seconds": 0.5, "backoff_base_seconds": 0.01, "max_attempts": 2}
    trusted = {"trusted_destinations": [server.origin]}
    names = {"sendgrid": base, "twilio": base}
    return load_settings(
        environ={},
        http={"public_url": "https://mail.acme.example.com"},
        outbound={**outbound, **trusted},
        providers=names,
        secrets={"key": SECRETS_KEY},
    )


async def _until_ended(box: Pillarbox, ids: list[str]) -> list[OutboundMessage]:
    while True:
        await drained(box)
        found = [await box.outbound.get(message_id) for message_id in ids]
        if all(message.status not in ("pending", "retrying", "processing") for message in found):
            return found


async def test_spans_of_attempts_hold_ids_and_kinds_and_nothing_else(
    sqlite_url: str, server: ProviderServer, spans: InMemorySpanExporter
) -> None:
    with credentials(SECRETS):
        async with Pillarbox.open(sqlite_url, settings=_in_process(server)) as box:
            await box.tenants.put(TENANT, NewTenant(providers=PROVIDERS))
            ids = await _send_all(box, server.origin, ENDINGS)
            found = await _until_ended(box, ids)
    finished = spans.get_finished_spans()
    assert len(finished) == sum(message.attempt_count for message in found)
    assert leaks(" ".join(span.to_json() for span in finished)) == []


async def test_a_provider_that_fails_with_all_it_knows_is_not_quoted(
    sqlite_url: str,
    server: ProviderServer,
    spans: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("pillarbox.box.providers_of", with_clumsy)
    clumsy = {"provider": "clumsy", "from": "+15005550006", "credentials": {"api_key": "env:E2E_SENDGRID_KEY"}}
    mail = clumsy | {"from": "hello@acme.example.com"}
    with credentials(SECRETS), caplog.at_level(logging.DEBUG):
        async with Pillarbox.open(sqlite_url, settings=_in_process(server)) as box:
            await box.tenants.put(TENANT, NewTenant(providers={"email": mail, "sms": clumsy, "webhook": clumsy}))
            found = await _until_ended(box, await _send_all(box, server.origin, ("taken",)))
    assert [message.status for message in found] == ["failed"] * 3
    assert [[attempt.outcome for attempt in message.attempts] for message in found] == [["unknown"] * 2] * 3
    told = [str(message.error_message) for message in found]
    assert told == ["The attempt failed with RuntimeError.", *["The attempt failed with ExceptionGroup."] * 2]
    assert leaks([str(attempt.error) for message in found for attempt in message.attempts]) == []
    assert leaks(caplog.text) == []
    assert leaks(" ".join(span.to_json() for span in spans.get_finished_spans())) == []


async def test_values_of_webhook_headers_and_secrets_are_not_in_the_database_file(
    tmp_path: Path, server: ProviderServer
) -> None:
    file = tmp_path / "box.db"
    with credentials(SECRETS):
        async with Pillarbox.open(f"sqlite:///{file}", settings=_in_process(server)) as box:
            await box.tenants.put(TENANT, NewTenant(providers=PROVIDERS))
            ids = await _send_all(box, server.origin, ("taken",))
            waiting = _bytes_beside(file)
            await _until_ended(box, ids)
            done = _bytes_beside(file)
    hidden = [f"Bearer {HEADER}", *(value for name, value in SECRETS.items() if name != "E2E_TWILIO_SID")]
    for kept in (waiting, done):
        assert BODY.encode() in kept, "what may be stored is found, so what must not be would be too"
        for secret in hidden:
            assert secret.encode() not in kept
            assert b64encode(secret.encode()).rstrip(b"=")[:-2] not in kept
    assert HEADER in server.of(ids[2])[0].headers["x-own"]


def _bytes_beside(file: Path) -> bytes:
    found = [path for path in file.parent.iterdir() if path.name in (file.name, f"{file.name}-wal")]
    assert len(found) == 2
    return b"".join(path.read_bytes() for path in found)
