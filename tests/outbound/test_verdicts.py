"""A provider may be anybody's code: what it answers is recorded as far as it can be, and nothing is sent twice for the rest."""

from random import Random
from typing import Any

import pytest

from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import NewTenant
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.outbound.verdicts import sound
from tests.outbound.working_nodes import Recorder, ended, working

WHOLE = Verdict(
    judgement="accepted",
    error="e",
    status_code=202,
    provider_msg_id="id-1",
    delivered=True,
    retry_after=0.5,
    opt_out=True,
    last_chance=True,
    request="asked",
    response="answered",
)


@pytest.mark.parametrize(
    "verdict", [WHOLE, Verdict(judgement="transient"), Verdict(judgement="unknown", retry_after=3)]
)
def test_a_sound_verdict_is_taken_as_it_is(verdict: Verdict) -> None:
    assert sound(verdict) is verdict


@pytest.mark.parametrize("answer", [None, "accepted", Verdict, Verdict(judgement=lambda: "accepted")])  # type: ignore[arg-type]
def test_what_is_no_verdict_leaves_open_what_became_of_the_message(answer: object) -> None:
    verdict = sound(answer)
    assert verdict == Verdict(judgement="unknown", error="The provider answered something that is no verdict.")


@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [
        ("status_code", "202", None),
        ("status_code", -1, None),
        ("status_code", 2**31, None),
        ("status_code", True, None),
        ("provider_msg_id", 17, None),
        ("provider_msg_id", "a\0b", None),
        ("provider_msg_id", "x" * 201, None),
        ("delivered", 1, False),
        ("opt_out", "no", False),
        ("last_chance", None, False),
        ("retry_after", "30", None),
        ("retry_after", True, None),
        ("request", b"asked", None),
        ("response", b"answered", None),
    ],
)
def test_what_cannot_be_recorded_is_left_out_and_the_judgement_stands(field: str, value: Any, instead: Any) -> None:
    verdict = sound(Verdict(judgement="accepted", **{field: value}))
    assert verdict.judgement == "accepted"
    assert getattr(verdict, field) is instead
    assert verdict.error == f"The provider's verdict had no usable {field}."


def test_an_error_that_is_no_text_is_replaced() -> None:
    verdict = sound(Verdict(judgement="rejected", error=ValueError("x")))  # type: ignore[arg-type]
    assert verdict == Verdict(judgement="rejected", error="The provider's verdict had no usable error.")


class Careless(Recorder):
    """Takes the message, and says so in a way that no database can store."""

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await super().send(message, account, deadline=deadline, begin=begin)
        return Verdict(judgement="accepted", status_code="fine", provider_msg_id="a\0b")  # type: ignore[arg-type]


async def test_a_message_that_a_careless_provider_took_is_sent_once(database_url: str) -> None:
    provider = Careless(Random(0), 0)
    async with working(database_url, "here", provider, OutboundPolicy(poll=0.05)) as node:
        await node.tenants.put(
            "acme", NewTenant(providers={"email": {"provider": "recorder", "from": "a@example.com"}})
        )
        message_id = await node.send("acme", Email(to="ann@example.com", subject="Hello", text="Hi"))
        assert await ended(node, message_id) == "sent"
        assert len(provider.begun[message_id]) == 1
