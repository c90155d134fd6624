"""What `InboxStore` promises, on every store there is."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.inbox.model import LARGEST_RESULT
from tests.conftest import skip_or_fail
from tests.inbox.keys import AWKWARD_KEYS
from tests.inbox.stands import Stand, memory_stand, mongo_stand, redis_stand, remote_stand, sql_stand
from tests.servers.postgres import ServerMissing
from tests.servers.redis import running_redis


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with running_redis(Path(tmp_path_factory.mktemp("redis"))) as url:
            yield url
    except ServerMissing as missing:
        skip_or_fail(missing)


def stand_of(kind: str, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[Stand]:
    match kind:
        case "memory":
            return memory_stand()
        case "sqlite" | "postgres":
            return sql_stand(request.getfixturevalue(f"{kind}_url"))
        case "redis":
            return redis_stand(request.getfixturevalue("redis_url"))
        case "remote":
            return remote_stand(request.getfixturevalue("sqlite_url"))
        case _:
            if "PILLARBOX_TEST_MONGO" not in os.environ:
                pytest.skip("No package has MongoDB; set PILLARBOX_TEST_MONGO to the URL of a server.")
            return mongo_stand()


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "remote", "mongo"])
async def stand(request: pytest.FixtureRequest) -> AsyncIterator[Stand]:
    async with stand_of(request.param, request) as ready:
        yield ready


async def begin(stand: Stand, key: str = "k", **more: Any) -> str:
    begun = await stand.store.try_begin(key, lease=stand.lease, **more)
    assert begun.status == "Acquired"
    assert begun.lease_id
    assert begun.expires_at is not None
    return begun.lease_id


async def status_of_begin(stand: Stand, key: str = "k", **more: Any) -> str:
    return (await stand.store.try_begin(key, lease=stand.lease, **more)).status


async def test_one_caller_acquires_and_the_others_are_told_it_is_busy(stand: Stand) -> None:
    lease_id = await begin(stand, owner="me")
    for _ in range(3):
        busy = await stand.store.try_begin("k", lease=stand.lease, owner="me")
        assert (busy.status, busy.lease_id, busy.expires_at) == ("Busy", None, None)
    assert (await stand.store.mark_processed("k", lease_id)).status == "Processed"


async def test_a_processed_key_stays_processed_and_gives_its_result(stand: Stand) -> None:
    result = {"order": 42, "lines": [1.5, None, True, "ß\u2028\U0001f600\\"]}
    lease_id = await begin(stand)
    assert (await stand.store.mark_processed("k", lease_id, result=result)).status == "Processed"
    await stand.lease_over()
    for _ in range(2):
        again = await stand.store.try_begin("k", lease=stand.lease)
        assert (again.status, again.lease_id, again.result) == ("Processed", None, result)
    assert (await stand.store.extend("k", lease_id, lease=stand.lease)).status == "LeaseLost"
    assert (await stand.store.release("k", lease_id)).status == "LeaseLost"
    assert (await stand.store.look("k")).status == "Processed"


async def test_marking_again_changes_nothing(stand: Stand) -> None:
    lease_id = await begin(stand)
    for result in ("first", "second", None):
        assert (await stand.store.mark_processed("k", lease_id, result=result)).status == "Processed"
    assert (await stand.store.try_begin("k", lease=stand.lease)).result == "first"
    assert (await stand.store.mark_processed("k", "another")).status == "LeaseLost"


async def test_a_lease_that_is_over_goes_to_the_next_caller_and_its_holder_can_change_nothing(stand: Stand) -> None:
    old = await begin(stand)
    await stand.lease_over()
    new = await begin(stand)
    assert new != old
    assert (await stand.store.extend("k", old, lease=stand.lease)).status == "LeaseLost"
    assert (await stand.store.release("k", old)).status == "LeaseLost"
    assert (await stand.store.mark_processed("k", old, result="late")).status == "LeaseLost"
    assert await status_of_begin(stand) == "Busy"
    assert (await stand.store.mark_processed("k", new, result="mine")).status == "Processed"
    assert (await stand.store.mark_processed("k", old)).status == "LeaseLost"
    assert (await stand.store.try_begin("k", lease=stand.lease)).result == "mine"


@pytest.mark.parametrize(("verb", "answer"), [("extend", "Extended"), ("mark", "Processed"), ("release", "Released")])
async def test_a_lease_that_is_over_and_that_nobody_took_is_still_its_holders(
    stand: Stand, verb: str, answer: str
) -> None:
    lease_id = await begin(stand)
    await stand.lease_over()
    match verb:
        case "extend":
            found = await stand.store.extend("k", lease_id, lease=stand.lease)
            assert found.expires_at is not None
            assert await status_of_begin(stand) == "Busy"
        case "mark":
            found = await stand.store.mark_processed("k", lease_id)
        case _:
            found = await stand.store.release("k", lease_id)
    assert found.status == answer


async def test_a_lease_lasts_as_long_as_it_is_extended(stand: Stand) -> None:
    lease_id = await begin(stand)
    extended = await stand.store.extend("k", lease_id, lease=stand.lease * 2)
    shown = await stand.store.look("k")
    assert (extended.status, shown.status) == ("Extended", "Leased")
    assert shown.lease_until == extended.expires_at
    await stand.lease_over()
    assert await status_of_begin(stand) == "Busy"
    await stand.lease_over()
    assert (await stand.store.look("k")).status == "Free"
    await begin(stand)


async def test_a_released_key_is_free_at_once_and_releasing_again_is_the_same_until_someone_begins(
    stand: Stand,
) -> None:
    lease_id = await begin(stand)
    for _ in range(2):
        assert (await stand.store.release("k", lease_id)).status == "Released"
    assert (await stand.store.extend("k", lease_id, lease=stand.lease)).status == "LeaseLost"
    assert (await stand.store.mark_processed("k", lease_id)).status == "LeaseLost"
    await begin(stand)
    assert (await stand.store.release("k", lease_id)).status == "LeaseLost"
    assert await status_of_begin(stand) == "Busy"


async def test_nothing_comes_into_being_by_an_unknown_key_or_lease(stand: Stand) -> None:
    assert (await stand.store.extend("k", "nobody", lease=stand.lease)).status == "LeaseLost"
    assert (await stand.store.mark_processed("k", "nobody")).status == "LeaseLost"
    assert (await stand.store.release("k", "nobody")).status == "LeaseLost"
    unknown = await stand.store.look("k")
    assert (unknown.status, unknown.attempts, unknown.first_seen, unknown.last_seen) == ("Unknown", 0, None, None)
    held = await begin(stand)
    assert (await stand.store.mark_processed("k", "nobody")).status == "LeaseLost"
    assert (await stand.store.extend("k", held, lease=stand.lease)).status == "Extended"


async def test_another_fingerprint_is_a_mismatch_while_leased_after_the_lease_and_once_processed(stand: Stand) -> None:
    lease_id = await begin(stand, fingerprint="a")
    expected = [("b", "Mismatch"), ("a", "Busy"), (None, "Busy")]
    assert [(given, await status_of_begin(stand, fingerprint=given)) for given, _ in expected] == expected
    await stand.lease_over()
    assert await status_of_begin(stand, fingerprint="b") == "Mismatch"
    assert (await stand.store.mark_processed("k", lease_id)).status == "Processed"
    expected = [("b", "Mismatch"), ("a", "Processed"), (None, "Processed")]
    assert [(given, await status_of_begin(stand, fingerprint=given)) for given, _ in expected] == expected


async def test_an_empty_fingerprint_is_one_too(stand: Stand) -> None:
    await begin(stand, fingerprint="")
    expected = [("", "Busy"), (None, "Busy"), ("a", "Mismatch")]
    assert [(given, await status_of_begin(stand, fingerprint=given)) for given, _ in expected] == expected


async def test_extending_is_being_seen_and_may_shorten_a_lease(stand: Stand) -> None:
    lease_id = await begin(stand)
    before = await stand.store.look("k")
    longer = await stand.store.extend("k", lease_id, lease=stand.lease * 2)
    shorter = await stand.store.extend("k", lease_id, lease=stand.lease)
    shown = await stand.store.look("k")
    assert longer.expires_at is not None
    assert shorter.expires_at is not None
    assert shown.lease_until == shorter.expires_at < longer.expires_at
    assert before.last_seen is not None
    assert shown.last_seen is not None
    assert shown.last_seen >= before.last_seen
    assert shown.first_seen == before.first_seen


async def test_a_fingerprint_outlives_a_lease_but_not_a_release(stand: Stand) -> None:
    await begin(stand, fingerprint="a")
    await stand.lease_over()
    lease_id = await begin(stand)
    assert await status_of_begin(stand, fingerprint="b") == "Mismatch"
    assert (await stand.store.release("k", lease_id)).status == "Released"
    await begin(stand, fingerprint="b")
    assert await status_of_begin(stand, fingerprint="a") == "Mismatch"


async def test_a_fingerprint_may_come_with_a_later_lease(stand: Stand) -> None:
    await begin(stand)
    assert await status_of_begin(stand, fingerprint="a") == "Busy"
    await stand.lease_over()
    await begin(stand, fingerprint="a")
    assert await status_of_begin(stand, fingerprint="b") == "Mismatch"


async def test_a_begin_that_is_repeated_gets_its_own_lease_again_but_not_after_giving_it_up(stand: Stand) -> None:
    assert await begin(stand, lease_id="mine") == "mine"
    assert await begin(stand, lease_id="mine") == "mine"
    assert (await stand.store.look("k")).attempts == 1
    assert await status_of_begin(stand, lease_id="yours") == "Busy"
    await stand.lease_over()
    assert await begin(stand, lease_id="mine", fingerprint="f") == "mine"
    assert await status_of_begin(stand, lease_id="mine", fingerprint="g") == "Mismatch"
    assert (await stand.store.look("k")).attempts == 2
    assert (await stand.store.release("k", "mine")).status == "Released"
    assert await status_of_begin(stand, lease_id="mine") == "Busy"
    assert await begin(stand, lease_id="yours") == "yours"
    assert await status_of_begin(stand, lease_id="mine") == "Busy"
    assert (await stand.store.mark_processed("k", "yours")).status == "Processed"
    assert await status_of_begin(stand, lease_id="yours") == "Processed"


async def test_looking_tells_the_state_and_counts_the_leases(stand: Stand) -> None:
    lease_id = await begin(stand)
    leased = await stand.store.look("k")
    assert (leased.status, leased.attempts) == ("Leased", 1)
    assert leased.first_seen is not None
    assert leased.last_seen is not None
    assert leased.lease_until is not None
    assert leased.first_seen <= leased.last_seen < leased.lease_until
    assert (await stand.store.release("k", lease_id)).status == "Released"
    free = await stand.store.look("k")
    assert (free.status, free.attempts, free.lease_until) == ("Free", 1, None)
    await begin(stand)
    await stand.lease_over()
    over = await stand.store.look("k")
    assert (over.status, over.attempts, over.lease_until) == ("Free", 2, None)
    assert over.first_seen == leased.first_seen
    lease_id = await begin(stand)
    assert (await stand.store.mark_processed("k", lease_id)).status == "Processed"
    done = await stand.store.look("k")
    assert (done.status, done.attempts, done.lease_until) == ("Processed", 3, None)


async def test_of_fifty_racing_callers_one_acquires(stand: Stand) -> None:
    keys = ["k", "l", "k", "m", "k"] * 50
    answers = await asyncio.gather(*(stand.store.try_begin(key, lease=10 * stand.lease) for key in keys))
    for key in "klm":
        found = [answer for asked, answer in zip(keys, answers, strict=True) if asked == key]
        won = [answer.lease_id for answer in found if answer.status == "Acquired"]
        assert len(won) == 1
        assert {answer.status for answer in found} == {"Acquired", "Busy"}
        held = won[0]
        assert held is not None
        marks = await asyncio.gather(
            *(stand.store.mark_processed(key, name) for name in [held, "other", held, "another"])
        )
        assert [mark.status for mark in marks] == ["Processed", "LeaseLost", "Processed", "LeaseLost"]


async def test_awkward_keys_are_the_same_in_all_calls_and_no_two_are_one(stand: Stand) -> None:
    leases = {key: await begin(stand, key) for key in AWKWARD_KEYS}
    for key, lease_id in leases.items():
        assert await status_of_begin(stand, key) == "Busy", key
        assert (await stand.store.look(key)).status == "Leased", key
        assert (await stand.store.extend(key, lease_id, lease=stand.lease)).status == "Extended", key
        assert (await stand.store.release(key, lease_id)).status == "Released", key
        assert (await stand.store.look(key)).status == "Free", key
        again = await begin(stand, key)
        assert (await stand.store.mark_processed(key, again, result=key)).status == "Processed", key
    for key in AWKWARD_KEYS:
        seen = await stand.store.look(key)
        assert (key, seen.status, seen.attempts) == (key, "Processed", 2)
        assert (await stand.store.try_begin(key, lease=stand.lease)).result == key


async def test_a_result_that_cannot_be_kept_is_refused_and_the_lease_stays(stand: Stand) -> None:
    lease_id = await begin(stand)
    for result in ("x" * LARGEST_RESULT, {"a": object()}, {"a": "\ud800"}, 2**70):
        with pytest.raises(InvalidInput, match="result"):
            await stand.store.mark_processed("k", lease_id, result=result)
    assert await status_of_begin(stand) == "Busy"
    largest = "x" * (LARGEST_RESULT - 2)
    assert (await stand.store.mark_processed("k", lease_id, result=largest)).status == "Processed"
    assert (await stand.store.try_begin("k", lease=stand.lease)).result == largest
