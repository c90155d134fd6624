"""What one channel has otherwise than the rest of outbound."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pillarbox.errors import InvalidInput, NotFound
from pillarbox.outbound.messages import Email, Sms, Webhook
from pillarbox.outbound.model import Channel, NewAttachment, NewTenant
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.outbound.providers import providers
from pillarbox.policies import outbound_policy
from pillarbox.secrets.sealing import Sealer
from pillarbox.settings import load_settings
from pillarbox.storage.migrate import migrate
from pillarbox.storage.sqlite import SqliteDatabase
from pillarbox.telemetry import Metrics
from pillarbox.testing import ManualClock


class Crowd:
    """Lets nobody go before everyone who can come has come, and counts how many were there at once; or is busy for an hour."""

    name = "crowd"
    channels: frozenset[Channel] = frozenset({"email", "sms"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self, *, busy: bool = False) -> None:
        self._busy = busy
        self._here: Counter[Channel] = Counter()
        self.most: Counter[Channel] = Counter()

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await begin()
        if self._busy:
            return Verdict(judgement="transient", status_code=503, error="Busy.", retry_after=3600.0)
        self._here[message.channel] += 1
        self.most |= self._here
        for _ in range(100):
            await asyncio.sleep(0)
        self._here[message.channel] -= 1
        return Verdict(judgement="accepted", status_code=200, provider_msg_id="x")


def policy_of(**outbound: Any) -> OutboundPolicy:
    return outbound_policy(load_settings(environ={}, outbound=outbound))


@asynccontextmanager
async def node(
    path: Path, crowd: Crowd, *, by_hand: bool = True, **outbound: Any
) -> AsyncIterator[tuple[Outbound, ManualClock]]:
    """A pipe, and its clock, which the test moves unless it is to go by itself."""
    database, clock = SqliteDatabase(str(path / "a.db")), ManualClock()
    if by_hand:
        database.clock = clock
    await migrate(database)
    pipe = Outbound(
        database,
        policy=policy_of(**outbound),
        providers=providers(crowd),
        sealer=Sealer(bytes(range(32))),
        holder="here",
        metrics=Metrics("pillarbox"),
        random=Random(0),
    )
    by_crowd: Mapping[str, Any] = {
        "email": {"provider": "crowd", "from": "a@example.com"},
        "sms": {"provider": "crowd", "from": "+493090182099"},
    }
    await pipe.tenants.put("acme", NewTenant(providers=dict(by_crowd)))
    try:
        yield pipe, clock
    finally:
        await pipe.close()
        await database.close()


async def test_a_channel_sends_no_more_at_once_than_it_may(tmp_path: Path) -> None:
    crowd = Crowd()
    async with node(tmp_path, crowd, channels={"sms": {"concurrency": 2}}) as (pipe, _):
        for n in range(6):
            await pipe.send("acme", Sms(to=f"+4930901820{n:02}", text="hello"))
            await pipe.send("acme", Email(to=f"p{n}@example.com", text="hello"))
        assert await pipe.drain.step() == 12
    assert crowd.most == {"sms": 2, "email": 6}


class TextsWaitForMail(Crowd):
    """Takes no text message before the first mail has come."""

    def __init__(self) -> None:
        super().__init__()
        self.mail_came = asyncio.Event()

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await begin()
        if message.channel == "email":
            self.mail_came.set()
        await self.mail_came.wait()
        return Verdict(judgement="accepted", status_code=200, provider_msg_id="x")


async def test_what_waits_for_its_channel_keeps_no_other_channel_of_its_tenant_waiting(tmp_path: Path) -> None:
    crowd = TextsWaitForMail()
    settings: dict[str, Any] = {"concurrency": 4, "channels": {"sms": {"concurrency": 1}}}
    async with node(tmp_path, crowd, by_hand=False, **settings) as (pipe, _):
        for n in range(6):
            await pipe.send("acme", Sms(to=f"+4930901820{n:02}", text="hello"))
        await pipe.send("acme", Email(to="ann@example.com", text="hello"))
        draining = asyncio.create_task(pipe.drain.run(grace=1))
        async with asyncio.timeout(60):
            await crowd.mail_came.wait()
        pipe.drain.stop()
        await draining


async def test_a_channel_s_own_limit_on_retry_after_is_kept(tmp_path: Path) -> None:
    shorter = {"email": {"retry_after_max_seconds": 90}}
    async with node(tmp_path, Crowd(busy=True), backoff_base_seconds=1, channels=shorter) as (pipe, clock):
        mail = await pipe.send("acme", Email(to="ann@example.com", text="hello"))
        text = await pipe.send("acme", Sms(to="+493090182000", text="hello"))
        await pipe.drain.step()
        waits = [(await pipe.get(each)).next_attempt_at for each in (mail, text)]
        assert waits == [clock.now() + timedelta(seconds=90), clock.now() + timedelta(seconds=3600)]


async def test_what_a_channel_sent_is_kept_as_long_as_it_says(tmp_path: Path) -> None:
    async with node(tmp_path, Crowd(), retention_days=30, channels={"sms": {"retention_days": 1}}) as (pipe, clock):
        mail = await pipe.send("acme", Email(to="ann@example.com", text="hello"))
        text = await pipe.send("acme", Sms(to="+493090182000", text="hello"))
        await pipe.drain.step()
        clock.advance(timedelta(days=2).total_seconds())
        assert (await pipe.prune())[0] == 1
        assert (await pipe.get(mail)).status == "sent"
        with pytest.raises(NotFound):
            await pipe.get(text)


async def test_what_one_channel_trusts_no_other_does(tmp_path: Path) -> None:
    origin = "http://127.0.0.1:9000"
    call = Webhook(url=f"{origin}/hook", body={})
    async with node(tmp_path, Crowd(), channels={"webhook": {"trusted_destinations": [origin]}}) as (pipe, _):
        assert await pipe.send("acme", call)
    other = {"email": {"trusted_destinations": [origin]}}
    async with node(tmp_path, Crowd(), channels=other) as (pipe, _):
        with pytest.raises(InvalidInput, match="https"):
            await pipe.send("acme", call)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Not where the tests' other files may be, in memory: no attachment is read from the system's own folders."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


async def test_a_channel_reads_attachments_from_its_own_folders_alone(tmp_path: Path, on_disk: Path) -> None:
    for folder in ("mine", "common"):
        (on_disk / folder).mkdir()
        (on_disk / folder / "a.txt").write_text("hello")
    own = {"email": {"attachment_roots": [str(on_disk / "mine")]}}
    async with node(tmp_path, Crowd(), attachment_roots=[str(on_disk / "common")], channels=own) as (pipe, _):

        def mail(folder: str) -> Email:
            path = str(on_disk / folder / "a.txt")
            return Email(to="ann@example.com", text="hello", attachments=[NewAttachment(filename="a.txt", path=path)])

        message_id = await pipe.send("acme", mail("mine"))
        await pipe.drain.step()
        found = await pipe.get(message_id)
        assert (found.status, found.attempts[-1].error) == ("sent", None)
        with pytest.raises(InvalidInput, match="attachment_roots"):
            await pipe.send("acme", mail("common"))


async def test_an_origin_that_is_none_is_refused_with_its_setting(tmp_path: Path) -> None:
    async with node(tmp_path, Crowd(), channels={"sms": {"trusted_destinations": ["nonsense"]}}) as (pipe, _):
        with pytest.raises(InvalidInput, match=r"outbound\.channels\.sms\.trusted_destinations"):
            pipe.check_policy()
