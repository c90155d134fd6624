"""More than ten thousand hostile requests: each is answered, the same on both databases, and a refused one leaves no trace."""

import asyncio
import json
import os
from collections import Counter
from itertools import chain

import pytest

from pillarbox.api.call import Endpoint
from pillarbox.api.openapi import problems_of
from pillarbox.api.routes import ENDPOINTS
from tests.api.client import ADMIN_KEY, Reply
from tests.hostile.corpus.texts import CANARY
from tests.hostile.examples import EXAMPLES
from tests.hostile.inputs import Attack, attacks
from tests.hostile.stand import SECRET, Stand, open_stand

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
ROOMS = sorted({endpoint.path.split("/")[2] if endpoint.path.startswith("/v1/") else "pages" for endpoint in ENDPOINTS})
# What the checks before an endpoint may answer to anybody.
ANYWHERE = {401, 404, 405, 421, 431}
SPENT_BY = {"close", "cancel", "retry", "expire", "forget", "release", "mark-processed"}


def of_room(room: str) -> list[Endpoint]:
    return [
        endpoint
        for endpoint in ENDPOINTS
        if (endpoint.path.split("/")[2] if endpoint.path.startswith("/v1/") else "pages") == room
    ]


def test_every_endpoint_is_attacked() -> None:
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} == EXAMPLES.keys()


def test_there_are_more_than_ten_thousand_distinct_attacks() -> None:
    made = list(chain.from_iterable(attacks(endpoint, SEED) for endpoint in ENDPOINTS))
    distinct = {(one.method, one.target, one.headers, one.dropped, one.body) for one in made}
    assert len(distinct) > 10_000
    assert len(distinct) > 0.95 * len(made)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("room", ROOMS)
async def test_hostile_requests_are_answered_alike_on_both_databases_and_change_nothing_when_refused(
    room: str, sqlite_url: str, postgres_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    statuses: Counter[int] = Counter()
    async with open_stand(sqlite_url) as one, open_stand(postgres_url) as other:
        for endpoint in of_room(room):
            for attack in attacks(endpoint, SEED):
                reply = await outlive(one, other, endpoint, attack)
                statuses[reply.status] += 1
    assert statuses[404] + statuses[405] + statuses[421] > 0
    assert CANARY not in capfd.readouterr().err


async def outlive(one: Stand, other: Stand, endpoint: Endpoint, attack: Attack) -> Reply:
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
    elif is_spent(attack):
        await asyncio.gather(one.prepare(), other.prepare())
    return reply


def check(reply: Reply, endpoint: Endpoint, attack: Attack, shown: str) -> None:
    assert reply.status < 500, (reply.status, shown)
    assert not attack.expected or reply.status in attack.expected, (reply.status, reply.body[:300], shown)
    assert ADMIN_KEY.encode() not in reply.body, shown
    assert SECRET.encode() not in reply.body, shown
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
    assert CANARY.encode() not in reply.body, (reply.body, shown)
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
