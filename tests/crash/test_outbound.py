"""Outbound workers as real processes: killed, stopped, told to stop, and slow."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email, Message, Webhook
from pillarbox.outbound.model import OutboundMessage
from pillarbox.outbound.reading import Filter
from tests.outbound.end_to_end import CREDENTIALS, SECRETS_KEY, TENANT, sending_box
from tests.servers.daemon import Daemon
from tests.servers.provider_servers import Answer, Call, ProviderServer, provider_server

MESSAGES = 1000
AT_ONCE = 16
MOST_OF_A_TENANT = AT_ONCE * 3 // 4


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as server:
        yield server


def worker(url: str, server: ProviderServer, name: str, **outbound: object) -> Daemon:
    numbers = {"concurrency": AT_ONCE, "poll_seconds": 0.1, "backoff_base_seconds": 0.05, **outbound}
    settings: dict[str, object] = {
        "log.format": "json",
        "secrets.key": SECRETS_KEY,
        "shutdown.grace_seconds": numbers.pop("grace_seconds", 20),
        "providers.sendgrid.base_url": server.origin,
        **{f"outbound.{name}": value for name, value in numbers.items()},
    }
    return Daemon(
        url, "--node", name, command="worker", settings=settings, environ=CREDENTIALS, ready=f"^working as {name}$"
    )


def message(number: int, origin: str) -> Message:
    """Every second one is a mail: both kinds carry the message's id to whoever gets it."""
    if number % 2:
        return Email(to=f"person{number}@example.com", subject="Hello", text="a body")
    return Webhook(url=f"{origin}/hook{number}", body={"number": number})


async def enqueued(box: Pillarbox, messages: Sequence[Message]) -> list[str]:
    return list(await asyncio.gather(*(box.outbound.send(TENANT, each) for each in messages)))


async def all_ended(box: Pillarbox, *, seconds: float = 90.0) -> None:
    """Wait until nothing is left to do."""
    async with asyncio.timeout(seconds):
        while True:
            status = await box.outbound.status()
            if status.pending == status.processing == status.failed == 0:
                return
            await asyncio.sleep(0.02)


async def every(box: Pillarbox, ids: Sequence[str]) -> dict[str, OutboundMessage]:
    return {message_id: await box.outbound.get(message_id) for message_id in ids}


def calls_by_id(server: ProviderServer) -> Counter[str]:
    return Counter(str(call.message_id) for call in server.calls)


@pytest.mark.slow
@pytest.mark.parametrize(("database", "workers"), [("postgres", 4), ("sqlite", 2)])
async def test_a_killed_worker_repeats_only_what_it_was_sending_and_loses_nothing(
    request: pytest.FixtureRequest, server: ProviderServer, database: str, workers: int
) -> None:
    url: str = request.getfixturevalue(f"{database}_url")
    killed = threading.Event()
    # So many unanswered calls that whoever is killed must have made some of them.
    server.arrange = lambda call: _thanks(call, once=killed if len(server.calls) > MESSAGES // 3 else None)
    async with sending_box(url, server) as box:
        with ExitStack() as stack:
            daemons = [stack.enter_context(worker(url, server, f"w{n}")) for n in range(workers)]
            ids = await enqueued(box, [message(number, server.origin) for number in range(MESSAGES)])
            server.expect(lambda calls: len(calls) > MESSAGES // 3 + (workers - 1) * MOST_OF_A_TENANT)
            daemons.pop(random.randrange(workers)).kill()
            seen_at_kill = len(server.calls)
            killed.set()
            await all_ended(box)
            messages = await every(box, ids)
            sent_by_each = [daemon.logs.text.count('"event": "sent"') for daemon in daemons]
    assert seen_at_kill < MESSAGES, "the kill was to be in the middle"
    assert all(sent_by_each), f"not every process that was left took part: {sent_by_each}"
    seen = calls_by_id(server)
    assert set(seen) == set(ids)
    assert {each.status for each in messages.values()} == {"delivered", "sent"}
    for message_id, found in messages.items():
        outcomes = [attempt.outcome for attempt in found.attempts]
        assert found.attempt_count == len(outcomes)
        if outcomes == ["accepted"]:
            assert seen[message_id] == 1
        else:
            # Claimed by the one that was killed, whose request had left or had not: the same id either way.
            assert outcomes == ["unknown", "accepted"]
            assert seen[message_id] in (1, 2)
    assert 1 <= sum(len(found.attempts) > 1 for found in messages.values()) <= AT_ONCE
    assert max(seen.values()) == 2


def _thanks(call: Call, once: threading.Event | None) -> Answer:
    return Answer(202 if call.provider == "sendgrid" else 200, after=0.02, once=once)


@pytest.mark.slow
@pytest.mark.parametrize(("database", "workers"), [("postgres", 4), ("sqlite", 2)])
async def test_a_slow_but_living_send_is_not_repeated(
    request: pytest.FixtureRequest, server: ProviderServer, database: str, workers: int
) -> None:
    url: str = request.getfixturevalue(f"{database}_url")
    slow = {"lease_seconds": 10, "timeout_seconds": 7}
    server.arrange = lambda call: Answer(after=4)
    async with sending_box(url, server) as box:
        with ExitStack() as stack:
            for n in range(workers):
                stack.enter_context(worker(url, server, f"w{n}", **slow))
            ids = await enqueued(box, [Webhook(url=f"{server.origin}/hook") for _ in range(20)])
            await all_ended(box)
            messages = await every(box, ids)
    repeated = [[attempt.error for attempt in found.attempts] for found in messages.values() if found.attempt_count > 1]
    assert repeated == []
    assert calls_by_id(server) == dict.fromkeys(ids, 1)
    assert {found.status for found in messages.values()} == {"delivered"}


@pytest.mark.slow
async def test_a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes(
    database_url: str, server: ProviderServer
) -> None:
    server.arrange = lambda call: Answer(500, after=10) if len(server.calls) == 1 else None
    short = {"lease_seconds": 4, "timeout_seconds": 3.5}
    async with sending_box(database_url, server) as box:
        with worker(database_url, server, "sleepy", **short) as sleepy:
            [message_id] = await enqueued(box, [Webhook(url=f"{server.origin}/hook")])
            server.expect(lambda calls: len(calls) == 1)
            sleepy.pause()
            with worker(database_url, server, "awake", **short):
                await all_ended(box)
                before = await box.outbound.get(message_id)
                sleepy.resume()
                await enqueued(box, [Webhook(url=f"{server.origin}/hook") for _ in range(20)])
                await all_ended(box)
            assert sleepy.terminate() == 0
        after = await box.outbound.get(message_id)
    assert after == before
    assert [attempt.outcome for attempt in after.attempts] == ["unknown", "accepted"]


@pytest.mark.slow
async def test_priorities_are_kept_and_nothing_goes_before_its_time(database_url: str, server: ProviderServer) -> None:
    priorities = [random.choice([0, 5, 100, 100, 900]) for _ in range(60)]
    async with sending_box(database_url, server) as box:
        ids = [
            await box.outbound.send(TENANT, Webhook(url=f"{server.origin}/hook", priority=priority))
            for priority in priorities
        ]
        with worker(database_url, server, "one", concurrency=1):
            await all_ended(box)
    ordered = sorted(range(len(ids)), key=lambda n: (priorities[n], ids[n]))
    assert [call.message_id for call in server.calls] == [ids[n] for n in ordered]


@pytest.mark.slow
@pytest.mark.parametrize(("database", "workers"), [("postgres", 4), ("sqlite", 2)])
async def test_scheduled_messages_go_out_at_their_time_once_and_not_before(
    request: pytest.FixtureRequest, server: ProviderServer, database: str, workers: int
) -> None:
    url: str = request.getfixturevalue(f"{database}_url")
    async with sending_box(url, server) as box:
        with ExitStack() as stack:
            for n in range(workers):
                stack.enter_context(worker(url, server, f"w{n}"))
            start, zero = datetime.now(UTC), time.monotonic()
            due = {f"at{n}": start + timedelta(seconds=1 + n * 0.05) for n in range(40)}
            planned = [Webhook(url=f"{server.origin}/{name}", send_at=at) for name, at in due.items()]
            ids = await enqueued(box, planned)
            await all_ended(box)
    assert calls_by_id(server) == dict.fromkeys(ids, 1)
    late = {call.label: call.at - zero - (due[call.label] - start).total_seconds() for call in server.calls}
    assert min(late.values()) >= -0.01, late
    assert max(late.values()) < 5, late


@pytest.mark.slow
async def test_sigterm_ends_what_is_in_flight_and_leaves_the_rest_untouched(
    database_url: str, server: ProviderServer
) -> None:
    server.arrange = lambda call: Answer(after=0.8)
    async with sending_box(database_url, server) as box:
        with worker(database_url, server, "leaving", concurrency=8) as leaving:
            ids = await enqueued(box, [Webhook(url=f"{server.origin}/hook") for _ in range(40)])
            server.expect(lambda calls: len(calls) >= 4)
            assert leaving.terminate() == 0
            sent = calls_by_id(server)
            messages = await every(box, ids)
        assert set(sent.values()) == {1}
        for message_id, found in messages.items():
            expected = ("delivered", 1) if message_id in sent else ("pending", 0)
            assert (found.status, found.attempt_count, len(found.attempts)) == (*expected, expected[1])
        assert {"delivered", "pending"} == {found.status for found in messages.values()}
        with worker(database_url, server, "staying"):
            await all_ended(box)
    assert calls_by_id(server) == dict.fromkeys(ids, 1)


@pytest.mark.slow
async def test_sends_that_outlast_the_grace_are_given_back_as_unknown_and_repeated_under_their_ids(
    database_url: str, server: ProviderServer
) -> None:
    server.arrange = lambda call: Answer(way="hang") if len(server.of(str(call.message_id))) == 1 else None
    async with sending_box(database_url, server) as box:
        with worker(database_url, server, "leaving", grace_seconds=0.1) as leaving:
            ids = await enqueued(box, [Webhook(url=f"{server.origin}/hook") for _ in range(5)])
            server.expect(lambda calls: len(calls) == 5)
            assert leaving.terminate() == 0
            stopped = await box.outbound.list(Filter(tenant_id=TENANT))
            assert {found.status for found in stopped} == {"retrying"}
        with worker(database_url, server, "staying"):
            await all_ended(box)
        messages = await every(box, ids)
    assert calls_by_id(server) == dict.fromkeys(ids, 2)
    for found in messages.values():
        assert [attempt.outcome for attempt in found.attempts] == ["unknown", "accepted"]
        first, second = found.attempts
        assert first.error == "The node stopped during the delivery."
        assert all(one.at < other.at for one, other in pairwise(server.of(found.message_id)))
        assert second.attempt == 2
