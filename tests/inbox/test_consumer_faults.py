import asyncio
from collections.abc import AsyncIterator

import pytest
from aio_pika.abc import AbstractIncomingMessage

from pillarbox.box import Pillarbox
from pillarbox.inbox import Inbox
from pillarbox.inbox.consumer import What
from tests.inbox.stage import FaultyStore, Stage, connected

KEY = "main:billing:order:m1"


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[FaultyStore]:
    async with Pillarbox.open(database_url) as box:
        yield FaultyStore(box.inbox.store)


@pytest.fixture
async def stage(rabbitmq_url: str, store: FaultyStore) -> AsyncIterator[Stage]:
    async with connected(rabbitmq_url, Inbox(store, lease=0.5)) as opened:
        yield opened


async def test_a_message_is_held_while_the_inbox_cannot_be_asked(stage: Stage, store: FaultyStore) -> None:
    store.away = {"try_begin", "extend", "mark_processed", "release", "look"}
    async with stage.consuming():
        await stage.publish("m1", times=2)
        await stage.happened.until_some("unavailable", 2)
        assert stage.happened.counts["began"] == 0
        assert await stage.waiting() == 0
        store.away.clear()
        await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
    assert stage.happened.counts["did m1"] == 1


async def test_a_message_that_was_held_goes_back_when_the_consumer_ends(stage: Stage, store: FaultyStore) -> None:
    store.away = {"try_begin"}
    async with stage.consuming():
        await stage.publish("m1")
        await stage.happened.until_some("unavailable")
    await stage.channel.close()
    await stage.channel.reopen()
    assert await stage.waiting() == 1


async def test_a_message_can_be_handled_without_the_inbox_when_that_is_chosen(stage: Stage, store: FaultyStore) -> None:
    store.away = {"try_begin"}
    async with stage.consuming(when_unavailable="handle"):
        await stage.publish("m1")
        await stage.happened.until_some("unprotected")
    assert stage.happened.counts["did m1"] == 1


async def test_only_the_mark_is_tried_again_when_only_the_mark_failed(stage: Stage, store: FaultyStore) -> None:
    store.away = {"mark_processed", "extend"}
    async with stage.consuming(when_unavailable="handle"):
        await stage.publish("m1", times=2)
        await stage.happened.until_some("did m1")
        await store.asked.until_some("mark_processed", 4)
        store.away.clear()
        await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
    assert stage.happened.counts["did m1"] == 1


async def test_the_inbox_away_for_longer_than_the_lease_at_the_mark_costs_no_second_run(
    stage: Stage, store: FaultyStore
) -> None:
    async with stage.consuming():
        await stage.publish("m1", headers={"waits": True})
        await stage.happened.until_some("began")
        store.away = {"try_begin", "mark_processed", "extend", "look"}
        stage.open_door.set()
        await stage.publish("m1")
        await stage.happened.until_some("busy")
        await asyncio.sleep(0.7)
        store.away.clear()
        await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)
    assert stage.happened.counts["did m1"] == 1
    assert (await store.look(KEY)).status == "Processed"


async def test_work_that_was_done_is_marked_and_not_repeated_after_somebody_took_the_lease(
    stage: Stage, store: FaultyStore
) -> None:
    async with stage.consuming():
        store.away = {"mark_processed", "extend"}
        await stage.publish("m1")
        await stage.happened.until_some("did m1")
        rival = await store.try_begin(KEY, lease=60.0)
        while rival.lease_id is None:
            rival = await store.try_begin(KEY, lease=60.0)
        store.away.clear()
        await stage.happened.until_some("overtaken")
        await stage.happened.until_some("busy")
        await store.release(KEY, rival.lease_id)
        await stage.happened.until_some("handled")
    assert stage.happened.counts["did m1"] == 1
    assert (await store.look(KEY)).status == "Processed"


async def test_a_lost_lease_cancels_the_handler_and_the_message_comes_again(stage: Stage, store: FaultyStore) -> None:
    async def handle(message: AbstractIncomingMessage) -> None:
        stage.happened.note("began")
        try:
            await stage.open_door.wait()
        except asyncio.CancelledError:
            stage.happened.note("cancelled")
            raise
        stage.happened.note("did it")

    async with stage.consuming(handler=handle):
        store.away = {"extend", "release"}
        await stage.publish("m1")
        await stage.happened.until_some("lost")
        store.away.clear()
        await stage.happened.until_some("began", 2)
        stage.open_door.set()
        await stage.happened.until_some("handled")
    counts = stage.happened.counts
    assert (counts["began"], counts["cancelled"], counts["did it"]) == (2, 1, 1)


async def test_a_lease_is_renewed_while_the_handler_runs(stage: Stage, store: FaultyStore) -> None:
    async with stage.consuming():
        await stage.publish("m1", headers={"waits": True}, times=2)
        await store.asked.until_some("extend", 4)
        assert stage.happened.counts["began"] == 1
        stage.open_door.set()
        await stage.happened.until(lambda counts: counts["handled"] == counts["skipped"] == 1)


async def test_a_store_that_fails_in_another_way_holds_the_message_too(stage: Stage, store: FaultyStore) -> None:
    class Broken(FaultyStore):
        def _reach(self, verb: str) -> None:
            self.asked.note(verb)
            if self.asked.counts["try_begin"] < 3:
                raise KeyError(verb)

    stage.inbox = Broken(store)
    async with stage.consuming():
        await stage.publish("m1")
        await stage.happened.until_some("handled")
    assert stage.happened.counts["unavailable"] == 1


async def test_a_message_whose_handler_fails_while_the_inbox_goes_away_comes_again(
    stage: Stage, store: FaultyStore
) -> None:
    async def handle(message: AbstractIncomingMessage) -> None:
        stage.happened.note("began")
        if stage.happened.counts["began"] == 1:
            store.away = {"try_begin", "extend", "mark_processed", "release", "look"}
            raise ValueError

    async with stage.consuming(handler=handle):
        await stage.publish("m1")
        await stage.happened.until_some("failed")
        await stage.happened.until_some("unavailable")
        store.away.clear()
        await stage.happened.until_some("handled")
    assert stage.happened.counts["began"] == 2


async def test_an_end_between_work_and_mark_is_reported(stage: Stage, store: FaultyStore) -> None:
    async with stage.consuming():
        store.away = {"mark_processed", "extend"}
        await stage.publish("m1")
        await store.asked.until_some("mark_processed")
    assert stage.happened.counts["unmarked"] == 1


async def test_a_counter_that_fails_changes_nothing(stage: Stage) -> None:
    def fail(what: What, message: AbstractIncomingMessage) -> None:
        raise ValueError

    async with stage.consuming(noticed=fail):
        await stage.publish("m1")
        await stage.happened.until_some("did m1")
        while (await stage.inbox.look(KEY)).status != "Processed":
            pass
    await stage.channel.close()
    await stage.channel.reopen()
    assert await stage.waiting() == 0
