"""Attacks on two stands at once, one on each database, and what every answer has to be."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pillarbox.api.call import Endpoint
from pillarbox.api.openapi import problems_of
from tests.api.client import ADMIN_KEY, Reply
from tests.hostile import adapters
from tests.hostile.attack import Attack
from tests.hostile.comparing import difference, meaning
from tests.hostile.corpus.texts import CANARY
from tests.hostile.digest import changed
from tests.hostile.form_inputs import takes_a_form
from tests.hostile.inputs import chosen, is_page
from tests.hostile.pages import check_page
from tests.hostile.stand import SECRET, Stand

SPENT_BY = {"close", "cancel", "expire", "forget", "release", "mark-processed", "logout", "remove", "revoke", "resend"}
A_RECORD = {"idempotency_key", "message_copy", "message_event", "message_history"}
"""Where it is written that a message was refused because somebody had opted out."""


@dataclass
class Tally:
    """What was sent, each input counted once, and how it was answered."""

    inputs: int = 0
    signed_in: int = 0
    answers: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.inputs += other.inputs
        self.signed_in += other.signed_in
        self.answers += other.answers


def room_of(endpoint: Endpoint) -> str:
    """The part of the API that an endpoint is in."""
    pieces = endpoint.path.split("/")
    if pieces[1] != "v1":
        return "adapters" if pieces[1] == "adapters" else "forms" if takes_a_form(endpoint) else "pages"
    return "-".join(pieces[2:5:2]) if pieces[2] == "tenants" else pieces[2]


async def assault(one: Stand, other: Stand, endpoints: Iterable[Endpoint], *, seed: int, share: float) -> Tally:
    """Send a share of all attacks on these endpoints to both stands."""
    tally = Tally()
    for endpoint in endpoints:
        for attack in {attack.said: attack for attack in chosen(endpoint, seed, share)}.values():
            if one.has_had(attack):
                # Two endpoints can make the same of theirs: another method of one path, or an id that is empty.
                continue
            reply = await outlive(one, other, endpoint, attack)
            tally.answers[f"{reply.status // 100}xx"] += 1
            tally.signed_in += is_page(endpoint) and "cookie" not in attack.dropped
    assert one.sent == other.sent
    tally.inputs = len(one.sent)
    return tally


async def outlive(one: Stand, other: Stand, endpoint: Endpoint, attack: Attack) -> Reply:
    """Attack both, check both answers, and mend what was used up."""
    await asyncio.gather(one.come_to_rest(), other.come_to_rest())
    before = one.rows.look(), other.rows.look()
    replies = await asyncio.gather(one.suffer(attack), other.suffer(attack))
    shown = f"{endpoint.method} {endpoint.path}: {attack!r}"[:1500]
    for reply in replies:
        check(reply, endpoint, attack, shown)
    meanings = meaning(replies[0], one.names), meaning(replies[1], other.names)
    assert meanings[0] == meanings[1], (difference(*meanings), shown)
    reply = replies[0]
    if await is_refused(one, other, reply, endpoint, shown):
        allowed = A_RECORD if reply.status == 409 and reply.reason == "opted-out" else set[str]()
        for stand, rows in zip((one, other), before, strict=True):
            touched = changed(rows, stand.rows.look())
            assert touched <= allowed, (touched, shown)
    elif is_spent(attack, endpoint) and b"LeaseLost" not in reply.body:
        await asyncio.gather(one.come_to_rest(), other.come_to_rest())
        await asyncio.gather(one.prepare(), other.prepare())
    return reply


async def is_refused(one: Stand, other: Stand, reply: Reply, endpoint: Endpoint, shown: str) -> bool:
    """Whether nothing may have changed; what became of a form stands on the page after it."""
    if reply.status != 303 or not takes_a_form(endpoint):
        return reply.status >= 300
    if reply.headers["location"] == "/login":
        return "set-cookie" not in reply.headers
    said = await asyncio.gather(one.told(), other.told())
    for words in said:
        # Only the word of a filter that is none is named.
        assert CANARY.encode() not in words or b"<bdi>filter: " in words, (words, shown)
    tones = [b'class="notice bad"' in words for words in said]
    assert tones[0] == tones[1], (said, shown)
    return tones[0]


def check(reply: Reply, endpoint: Endpoint, attack: Attack, shown: str) -> None:
    assert reply.status < 500, (reply.status, shown)
    assert not attack.expected or reply.status in attack.expected, (reply.status, reply.body[:300], shown)
    assert ADMIN_KEY.encode() not in reply.body, shown
    assert SECRET.encode() not in reply.body, shown
    assert adapters.SECRET.encode() not in reply.body, shown
    assert reply.headers["x-content-type-options"] == "nosniff", shown
    if attack.place.startswith(("body", "bytes", "pair", "query", "form")) and attack.method == endpoint.method:
        documented = {*endpoint.answers, *problems_of(endpoint)}
        assert reply.status in documented, (reply.status, reply.body[:300], shown)
    if reply.headers.get("content-type", "").startswith("text/html") and reply.body:
        check_page(reply, shown)
    if reply.status < 400 or reply.headers["content-type"] != "application/problem+json":
        assert reply.status < 400 or endpoint.media_type == "text/html", (reply.status, shown)
        return
    check_problem(reply, attack, shown)


def check_problem(reply: Reply, attack: Attack, shown: str) -> None:
    """A refusal is brief, names the field, and does not repeat what was sent."""
    if attack.method == "HEAD":
        assert reply.body == b""
        return
    assert reply.reason, shown
    # An unknown or taken session is named, by the id that the caller gave.
    names_a_session = reply.status in (404, 409) and b"ession " in reply.body
    # So is the word of a filter that is none.
    names_a_word = reply.status == 422 and b'"field":"filter"' in reply.body
    assert names_a_session or names_a_word or CANARY.encode() not in reply.body, (reply.body, shown)
    assert len(reply.body) < 1500, (reply.body, shown)
    if reply.status == 422:
        (error,) = reply.json()["errors"]
        assert error["detail"], shown
        assert error["field"] or attack.place in ("body", "bytes"), (reply.body, shown)


def is_spent(attack: Attack, endpoint: Endpoint) -> bool:
    """Whether what it was aimed at can be used once only."""
    last = attack.target.partition(b"?")[0].rpartition(b"/")[2].decode("latin-1")
    return (
        attack.method in ("DELETE", "PUT")
        or last in SPENT_BY
        or attack.target.startswith(b"/u/")
        or (takes_a_form(endpoint) and endpoint.path in ("/tenants/{tenant}", "/actions"))
    )
