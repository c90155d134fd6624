import asyncio
from dataclasses import replace
from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import CHANNELS, Channel
from pillarbox.outbound.provider import Account, Attachment, Outgoing, Verdict
from pillarbox.outbound.providers.sandbox import TROUBLES, Sandbox, Trouble
from tests.outbound.provider_contract import AT, MESSAGE_ID, at_once

ACCOUNT = Account("")
ORDINARY: dict[Channel, str] = {
    "email": "ada@fail.example",
    "sms": "+15551234567",
    "push": "f4iLtokenWithoutTheWord",
    "webhook": "https://fail.example/in?then=fail",
    "voice": "+15551234567",
    "whatsapp": "+15551234567",
    "telegram": "123450001",
    "discord": "81384788765712384",
    "slack": "C024BE91L",
    "inapp": "user-17",
}


def message(channel: Channel, to: str, **changes: Any) -> Outgoing:
    facts: dict[str, Any] = {"message_id": MESSAGE_ID, "tenant_id": "acme", "attempt": 1, "at": AT, "created_at": AT}
    return Outgoing(**(facts | {"channel": channel, "to": to} | changes))


async def send(sandbox: Sandbox, channel: Channel, to: str, *, deadline: float = 0.001, **changes: Any) -> Verdict:
    return await sandbox.send(message(channel, to, **changes), ACCOUNT, deadline=deadline, begin=at_once)


async def attempts(to: str, channel: Channel = "email") -> list[str]:
    sandbox = Sandbox()
    return [(await send(sandbox, channel, to, attempt=attempt)).judgement for attempt in (1, 2, 3, 4)]


@pytest.mark.parametrize("channel", CHANNELS)
async def test_every_channel_is_accepted_and_two_are_delivered_with_it(channel: Channel) -> None:
    verdict = await send(Sandbox(), channel, ORDINARY[channel])
    assert verdict == Verdict(
        judgement="accepted",
        provider_msg_id=f"sandbox-{MESSAGE_ID}",
        delivered=channel in ("webhook", "inapp"),
    )


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        ("fail", ["rejected"] * 4),
        ("throttle", ["transient", *["accepted"] * 3]),
        ("hang", ["unknown"] * 4),
        ("unknown", ["unknown"] * 4),
        ("flaky", ["transient"] * 2 + ["accepted"] * 2),
    ],
)
async def test_the_recipients_address_decides_how_attempts_end(trouble: Trouble, expected: list[str]) -> None:
    digits = f"000{TROUBLES.index(trouble) + 1}"
    assert await attempts(f"{trouble}@example.com") == expected
    assert await attempts(f"Always-{trouble.upper()}+1@example.com") == expected
    assert await attempts(f"+1555123{digits}", "sms") == expected
    assert await attempts(f"device:{trouble}:7", "push") == expected
    assert await attempts(f"https://example.com/hooks/{trouble}?x=1", "webhook") == expected


@pytest.mark.parametrize("to", ["changes@example.com", "failsafe@example.com", "+15551230006", "+15550001000"])
async def test_an_address_that_only_resembles_trouble_is_accepted(to: str) -> None:
    assert (await attempts(to, "sms" if to.startswith("+") else "email")) == ["accepted"] * 4


async def test_a_throttled_message_may_come_back_after_a_second() -> None:
    verdict = await send(Sandbox(), "email", "throttle@example.com")
    assert (verdict.status_code, verdict.retry_after) == (429, 1.0)


async def test_who_hangs_uses_up_the_whole_deadline() -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    verdict = await send(Sandbox(), "sms", "+15551230003", deadline=0.05)
    assert loop.time() - begun >= 0.05
    assert verdict.judgement == "unknown"


async def test_who_hangs_can_be_cancelled_and_is_seen_meanwhile() -> None:
    sandbox = Sandbox()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await send(sandbox, "sms", "+15551230003", deadline=3600)
    assert [sent.message.to for sent in sandbox.sent()] == ["+15551230003"]


async def test_the_next_sends_can_be_spoilt_whoever_they_are_for() -> None:
    sandbox = Sandbox()
    sandbox.arrange("throttle", 2)
    sandbox.arrange("fail")
    ends = [(await send(sandbox, "email", "ada@example.com", attempt=attempt)).judgement for attempt in (5, 6, 7, 8)]
    assert ends == ["transient", "transient", "rejected", "accepted"]


@pytest.mark.parametrize(("trouble", "times"), [("explode", 1), ("fail", 0), ("fail", 1001)])
def test_only_known_troubles_of_a_bounded_number_can_be_arranged(trouble: Any, times: int) -> None:
    with pytest.raises(InvalidInput):
        Sandbox().arrange(trouble, times)


async def test_what_was_sent_is_kept_with_its_verdict_the_oldest_first() -> None:
    sandbox = Sandbox()
    await send(sandbox, "email", "ada@example.com", subject="One")
    await send(sandbox, "email", "fail@example.com", subject="Two")
    assert [(sent.message.subject, sent.verdict.judgement) for sent in sandbox.sent()] == [
        ("One", "accepted"),
        ("Two", "rejected"),
    ]


async def test_no_more_than_the_last_five_hundred_are_kept() -> None:
    sandbox = Sandbox()
    for number in range(510):
        await send(sandbox, "sms", "+15551234567", text=str(number))
    assert [sent.message.text for sent in sandbox.sent()] == [str(number) for number in range(10, 510)]


async def test_large_messages_do_not_fill_the_memory() -> None:
    sandbox, file = Sandbox(), Attachment("a.bin", "application/octet-stream", bytes(10 * 1024 * 1024))
    for number in range(5):
        await send(sandbox, "email", "ada@example.com", text=str(number), attachments=[file])
    assert [sent.message.text for sent in sandbox.sent()] == ["2", "3", "4"]
    await sandbox.send(
        replace(message("email", "ada@example.com"), attachments=[file] * 4), ACCOUNT, deadline=1, begin=at_once
    )
    assert len(sandbox.sent()) == 1


async def test_a_webhooks_header_values_are_not_kept() -> None:
    sandbox = Sandbox()
    await send(sandbox, "webhook", "https://example.com/", headers={"Authorization": "Bearer canary"})
    assert dict(sandbox.sent()[0].message.headers) == {"Authorization": "***"}
