"""More than ten thousand hostile requests: each is answered, the same on both databases, and a refused one leaves no trace."""

import asyncio
import json
import os
from itertools import chain

import pytest

from pillarbox.api.call import Endpoint
from pillarbox.api.openapi import problems_of
from pillarbox.api.routes import ENDPOINTS
from tests.api.client import ADMIN_KEY, Reply
from tests.hostile import adapters
from tests.hostile.corpus.texts import CANARY
from tests.hostile.examples import EXAMPLES
from tests.hostile.inputs import Attack, chosen
from tests.hostile.stand import SECRET, Stand, open_stand

pytestmark = pytest.mark.long

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
# 0.45 makes more than ten thousand; 4 makes all there are, about fifty thousand.
SHARE = float(os.environ.get("PILLARBOX_TEST_HOSTILE_SHARE", "0.45"))
SPENT_BY = {"close", "cancel", "expire", "forget", "release", "mark-processed"}


def room_of(endpoint: Endpoint) -> str:
    """The part of the API that an endpoint is in."""
    pieces = endpoint.path.split("/")
    if pieces[1] != "v1":
        return "adapters" if pieces[1] == "adapters" else "pages"
    return "-".join(pieces[2:5:2]) if pieces[2] == "tenants" else pieces[2]


def test_every_endpoint_is_attacked() -> None:
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} == EXAMPLES.keys()
    assert all(len(chosen(endpoint, SEED, SHARE)) > 50 for endpoint in ENDPOINTS)


def test_there_are_more_than_ten_thousand_distinct_attacks() -> None:
    made = chain.from_iterable(chosen(endpoint, SEED, SHARE) for endpoint in ENDPOINTS)
    assert len({(one.method, one.target, one.headers, one.dropped, one.body) for one in made}) > 10_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("room", sorted({room_of(endpoint) for endpoint in ENDPOINTS}))
async def test_hostile_requests_are_answered_alike_on_both_databases_and_change_nothing_when_refused(
    room: str, sqlite_url: str, postgres_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with open_stand(sqlite_url) as one, open_stand(postgres_url) as other:
        for endpoint in ENDPOINTS:
            if room_of(endpoint) == room:
                for attack in chosen(endpoint, SEED, SHARE):
                    await outlive(one, other, endpoint, attack)
    assert CANARY not in capfd.readouterr().err


async def outlive(one: Stand, other: Stand, endpoint: Endpoint, attack: Attack) -> None:
    """Attack both, check both answers, and mend what was used up."""
    before = one.count(), other.count()
    replies = await asyncio.gather(one.suffer(attack), other.suffer(attack))
    shown = f"{endpoint.method} {endpoint.path}: {attack!r}"[:1500]
    for reply in replies:
        check(reply, endpoint, attack, shown)
    assert meaning(replies[0]) == meaning(replies[1]), shown
    reply = replies[0]
    if reply.status >= 300:
        kept_a_record = reply.status == 409 and reply.reason == "opted-out"
        assert kept_a_record or (one.count(), other.count()) == before, shown
    elif is_spent(attack) and b"LeaseLost" not in reply.body:
        await asyncio.gather(one.prepare(), other.prepare())


def check(reply: Reply, endpoint: Endpoint, attack: Attack, shown: str) -> None:
    assert reply.status < 500, (reply.status, shown)
    assert not attack.expected or reply.status in attack.expected, (reply.status, reply.body[:300], shown)
    assert ADMIN_KEY.encode() not in reply.body, shown
    assert SECRET.encode() not in reply.body, shown
    assert adapters.SECRET.encode() not in reply.body, shown
    assert reply.headers["x-content-type-options"] == "nosniff", shown
    if attack.place.startswith(("body", "bytes", "pair", "query")) and attack.method == endpoint.method:
        documented = {*endpoint.answers, *problems_of(endpoint)}
        assert reply.status in documented, (reply.status, reply.body[:300], shown)
    if reply.status < 400 or reply.headers["content-type"] != "application/problem+json":
        assert reply.status < 400 or endpoint.media_type == "text/html", (reply.status, shown)
        return
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


def meaning(reply: Reply) -> tuple[object, ...]:
    """What a caller goes by."""
    if reply.headers.get("content-type") != "application/problem+json" or not reply.body:
        return (reply.status,)
    problem = json.loads(reply.body)
    return (reply.status, problem["type"], [error["field"] for error in problem.get("errors", ())])


def is_spent(attack: Attack) -> bool:
    last = attack.target.partition(b"?")[0].rpartition(b"/")[2].decode("latin-1")
    return attack.method in ("DELETE", "PUT") or last in SPENT_BY or attack.target.startswith(b"/u/")
