import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput, KeyBusy, LeaseLost, Unavailable
from pillarbox.inbox import Begun, Inbox, LeaseAnswer, MemoryInbox
from pillarbox.settings import Inbox as InboxSettings
from pillarbox.settings import Settings
from pillarbox.testing import ManualClock

SHORT = 0.15


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def inbox(clock: ManualClock) -> Inbox:
    return Inbox(MemoryInbox(clock))


class Flaky(MemoryInbox):
    """A store that is away for as long as it is told to be."""

    def __init__(self) -> None:
        super().__init__()
        self.away_for: dict[str, int] = {}
        self.asked: list[str] = []

    def _ask(self, verb: str) -> None:
        self.asked.append(verb)
        if self.away_for.get(verb, 0) > 0:
            self.away_for[verb] -= 1
            raise Unavailable("away")

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        self._ask("extend")
        return await super().extend(key, lease_id, lease=lease)

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        self._ask("mark")
        return await super().mark_processed(key, lease_id, result=result)

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        self._ask("release")
        return await super().release(key, lease_id)

    async def until_asked(self, verb: str, times: int) -> None:
        async with asyncio.timeout(10):
            while self.asked.count(verb) < times:  # noqa: ASYNC110 - the store is not ours to signal
                await asyncio.sleep(0.005)


async def test_the_first_does_the_work_and_the_next_are_told_it_is_done(inbox: Inbox) -> None:
    async with inbox.once("k") as first:
        assert first
        assert first.lease_id
        first.keep({"n": 1})
    async with inbox.once("k") as second:
        assert not second
        assert (second.status, second.result) == ("Processed", {"n": 1})


async def test_who_comes_while_the_first_works_is_told_it_is_busy(inbox: Inbox) -> None:
    async with inbox.once("k") as first:
        async with inbox.once("k") as other:
            assert (bool(first), bool(other), other.status) == (True, False, "Busy")
        async with inbox.once("l") as elsewhere:
            assert elsewhere


async def test_a_failed_body_releases_its_key(inbox: Inbox) -> None:
    with pytest.raises(ZeroDivisionError):
        async with inbox.once("k"):
            _ = 1 / 0
    assert (await inbox.look("k")).status == "Free"
    async with inbox.once("k") as again:
        assert again
    assert (await inbox.look("k")).attempts == 2


async def test_a_cancelled_body_releases_its_key(inbox: Inbox) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with inbox.once("k"):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await inbox.look("k")).status == "Free"


async def test_what_is_no_json_is_refused_before_the_work_is_over(inbox: Inbox) -> None:
    with pytest.raises(InvalidInput, match="result"):
        async with inbox.once("k") as first:
            first.keep(object())
    assert (await inbox.look("k")).status == "Free"


async def test_a_lease_is_renewed_for_as_long_as_the_body_runs() -> None:
    store = Flaky()
    inbox = Inbox(store, lease=SHORT)
    async with inbox.once("k") as first:
        await store.until_asked("extend", 9)
        assert (await inbox.try_begin("k")).status == "Busy"
    assert first
    assert (await inbox.look("k")).status == "Processed"


async def test_a_store_that_is_away_for_a_moment_loses_no_lease() -> None:
    store = Flaky()
    inbox = Inbox(store, lease=1.5)
    store.away_for = {"extend": 2, "mark": 2}
    async with inbox.once("k"):
        await store.until_asked("extend", 3)
    assert (await inbox.look("k")).status == "Processed"
    assert store.asked.count("mark") == 3


async def test_a_body_whose_lease_cannot_be_kept_is_cancelled_and_nothing_is_marked() -> None:
    store = Flaky()
    store.away_for = {"extend": 1000}
    cancelled = asyncio.Event()

    async def body() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(LeaseLost, match="not marked"):
        async with Inbox(store, lease=SHORT).once("k"):
            await body()
    assert cancelled.is_set()
    assert "mark" not in store.asked
    assert (await store.look("k")).status == "Free"


async def test_a_body_whose_lease_another_took_is_cancelled_and_changes_nothing() -> None:
    clock = ManualClock()
    store = MemoryInbox(clock)
    inbox = Inbox(store, lease=SHORT)
    others: list[Begun] = []

    async def body() -> None:
        clock.advance(60)
        others.append(await inbox.try_begin("k", lease=120))
        await asyncio.Event().wait()

    with pytest.raises(LeaseLost):
        async with inbox.once("k"):
            await body()
    assert others[0].lease_id is not None
    assert (await inbox.extend("k", others[0].lease_id)).status == "Extended"


async def test_a_body_that_ends_after_its_lease_was_taken_marks_nothing(inbox: Inbox, clock: ManualClock) -> None:
    async def body() -> Begun:
        clock.advance(60)
        return await inbox.try_begin("k")

    with pytest.raises(LeaseLost):
        async with inbox.once("k"):
            other = await body()
    assert other.lease_id is not None
    assert (await inbox.mark_processed("k", other.lease_id)).status == "Processed"


async def test_a_body_that_ends_after_its_lease_which_nobody_took_is_marked(inbox: Inbox, clock: ManualClock) -> None:
    async with inbox.once("k"):
        clock.advance(3600)
    assert await inbox.is_processed("k")


async def test_a_cancellation_from_outside_is_not_taken_for_a_lost_lease() -> None:
    store = Flaky()
    store.away_for = {"extend": 1000}
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT / 4), Inbox(store, lease=SHORT).once("k"):
            await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_the_error_of_a_body_is_the_one_to_hear_of_when_the_store_is_away_too() -> None:
    store = Flaky()
    store.away_for = {"release": 1}
    with pytest.raises(ZeroDivisionError):
        async with Inbox(store).once("k"):
            _ = 1 / 0


@pytest.mark.parametrize("error", [RuntimeError, Unavailable])
async def test_a_lease_that_a_broken_store_does_not_renew_is_lost(error: type[Exception]) -> None:
    class Broken(MemoryInbox):
        async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
            raise error("broken")

    with pytest.raises(LeaseLost):
        async with Inbox(Broken(), lease=SHORT).once("k"), asyncio.timeout(10):
            await asyncio.Event().wait()


async def test_the_error_of_a_body_is_the_one_to_hear_of_when_the_store_is_broken_too() -> None:
    class Broken(MemoryInbox):
        async def release(self, key: str, lease_id: str) -> LeaseAnswer:
            raise RuntimeError("broken")

    with pytest.raises(ZeroDivisionError):
        async with Inbox(Broken()).once("k"):
            _ = 1 / 0


class Late(MemoryInbox):
    """A store whose first lease is told of after `delay` seconds."""

    def __init__(self, delay: float, meanwhile: str | None = None) -> None:
        super().__init__()
        self.delay = delay
        self.meanwhile = meanwhile

    async def try_begin(self, key: str, **more: Any) -> Begun:
        begun = await super().try_begin(key, **more)
        delay, self.delay = self.delay, 0.0
        await asyncio.sleep(delay)
        if self.meanwhile is not None and delay:
            assert (await super().try_begin(key, lease=60, lease_id=self.meanwhile)).status == "Acquired"
        return begun


async def test_nothing_begins_under_a_lease_that_was_over_before_its_answer_came() -> None:
    inbox = Inbox(Late(SHORT * 1.5), lease=SHORT)
    async with inbox.once("k") as first:
        assert first
        assert (await inbox.try_begin("k")).status == "Busy"
    inbox = Inbox(Late(SHORT * 1.5, meanwhile="another"), lease=SHORT)
    async with inbox.once("k") as first:
        assert (bool(first), first.status, first.lease_id) == (False, "Busy", None)
    assert (await inbox.extend("k", "another")).status == "Extended"


async def test_a_lease_whose_answer_was_late_is_renewed_before_it_is_over() -> None:
    inbox = Inbox(Late(0.8), lease=1.0)
    async with inbox.once("k"):
        await asyncio.sleep(0.25)
        assert (await inbox.try_begin("k")).status == "Busy"


async def test_a_decorated_function_runs_once_for_each_key(inbox: Inbox) -> None:
    ran: list[int] = []

    @inbox.idempotent(key=lambda order, **_: f"order:{order}")
    async def bill(order: int, *, note: str = "") -> dict[str, Any]:
        ran.append(order)
        return {"order": order, "note": note}

    assert await bill(1, note="a") == {"order": 1, "note": "a"}
    assert await bill(1, note="b") == {"order": 1, "note": "a"}
    assert await bill(2) == {"order": 2, "note": ""}
    assert ran == [1, 2]
    assert bill.__name__ == "bill"


async def test_a_decorated_function_that_failed_runs_again_and_one_that_runs_is_busy(inbox: Inbox) -> None:
    inside, go_on, tries = asyncio.Event(), asyncio.Event(), 0

    @inbox.idempotent(key=lambda: "k")
    async def work() -> object:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ZeroDivisionError
        inside.set()
        await go_on.wait()
        return object()

    with pytest.raises(ZeroDivisionError):
        await work()
    running = asyncio.create_task(work())
    await inside.wait()
    with pytest.raises(KeyBusy):
        await work()
    go_on.set()
    assert await running is not None
    assert await work() is None
    assert tries == 2


async def test_the_two_method_form(inbox: Inbox) -> None:
    assert not await inbox.is_processed("k")
    answers = await asyncio.gather(*(inbox.mark_processed("k") for _ in range(5)))
    assert {answer.status for answer in answers} == {"Processed"}
    assert await inbox.is_processed("k")
    assert (await inbox.look("k")).attempts == 1


async def test_a_key_that_another_holds_is_not_marked_over_their_head(inbox: Inbox) -> None:
    assert (await inbox.try_begin("k")).status == "Acquired"
    with pytest.raises(KeyBusy):
        await inbox.mark_processed("k")
    assert not await inbox.is_processed("k")


@pytest.mark.parametrize(
    ("asked", "given"), [(None, 7.0), (-5, 30), (0, 30), (29.9, 30), (45.5, 45.5), (121, 120), (float("inf"), 120)]
)
async def test_what_a_caller_asks_is_clamped_and_the_setting_is_not(asked: float | None, given: float) -> None:
    clock = ManualClock()
    begun = await Inbox(MemoryInbox(clock), lease=7.0).try_begin("k", lease=asked)
    assert begun.expires_at is not None
    assert (begun.expires_at - clock.now()).total_seconds() == given


@pytest.mark.parametrize("lease", [0.0, -1.0, 120.5, float("inf"), float("nan")])
def test_a_lease_that_no_service_gives_is_refused(lease: float) -> None:
    with pytest.raises(InvalidInput, match="lease"):
        Inbox(MemoryInbox(), lease=lease)


@pytest.mark.parametrize("key", ["", "\0", "a\ud800", "x" * 2049])
async def test_a_key_that_no_store_can_keep_is_refused(inbox: Inbox, key: str) -> None:
    for call in (inbox.try_begin(key), inbox.extend(key, "l"), inbox.mark_processed(key), inbox.look(key)):
        with pytest.raises(InvalidInput) as refused:
            await call
        assert refused.value.field == "key"


async def test_other_arguments_are_checked_too(inbox: Inbox) -> None:
    for field, more in [
        ("owner", {"owner": "x" * 256}),
        ("fingerprint", {"fingerprint": "\0"}),
        ("leaseId", {"lease_id": ""}),
        ("leaseSeconds", {"lease": float("nan")}),
    ]:
        with pytest.raises(InvalidInput) as refused:
            await inbox.try_begin("k", **more)  # type: ignore[arg-type]
        assert refused.value.field == field


LEASE = 1.5


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    settings = Settings(inbox=InboxSettings(lease_seconds=LEASE))
    async with Pillarbox.open(database_url, settings=settings, node="here") as opened:
        yield opened


async def test_a_box_has_an_inbox_that_counts(box: Pillarbox) -> None:
    async with box.inbox.once("orders:billing:invoice:42") as first:
        assert first
        assert (await box.inbox.try_begin("orders:billing:invoice:42")).status == "Busy"
    async with box.inbox.once("orders:billing:invoice:42") as first:
        assert not first
    assert (await box.inbox_status()).processed == 1
    counted = box.metrics.exposition().decode()
    for line in (
        'pillarbox_inbox_begins_total{outcome="Acquired"} 1.0',
        'pillarbox_inbox_begins_total{outcome="Busy"} 1.0',
        'pillarbox_inbox_begins_total{outcome="Processed"} 1.0',
        'pillarbox_inbox_begins_total{outcome="Mismatch"} 0.0',
        'pillarbox_inbox_leases_total{outcome="Processed"} 1.0',
        'pillarbox_inbox_leases_total{outcome="LeaseLost"} 0.0',
        "pillarbox_inbox_removed_total 0.0",
    ):
        assert line in counted


async def test_a_slow_body_keeps_its_key_on_a_real_database(box: Pillarbox) -> None:
    async with box.inbox.once("k"):
        until = asyncio.get_running_loop().time() + 1.2 * LEASE
        while asyncio.get_running_loop().time() < until:
            assert (await box.inbox.try_begin("k")).status == "Busy"
            await asyncio.sleep(0.02)
    assert await box.inbox.is_processed("k")


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_work_that_was_done_is_marked_though_it_is_cancelled_while_marking(box: Pillarbox, turns: int) -> None:
    done = asyncio.Event()

    async def work() -> None:
        async with box.inbox.once("k"):
            done.set()

    task = asyncio.create_task(work())
    await done.wait()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await box.inbox.is_processed("k")


async def cancelled_until_it_ends(task: asyncio.Task[Any]) -> None:
    """As anyio does it: again at every turn of the loop."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()


async def test_who_is_cancelled_while_beginning_leaves_no_lease_behind(box: Pillarbox) -> None:
    for turns in range(6):
        once = box.inbox.once("k", lease=30)
        task = asyncio.create_task(once.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await box.inbox.look("k")).status in ("Unknown", "Free")
    async with once as first:
        assert first


async def test_who_is_cancelled_again_and_again_while_beginning_leaves_no_lease_behind(box: Pillarbox) -> None:
    for turns in range(6):
        task = asyncio.create_task(box.inbox.once("k", lease=30).__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        await cancelled_until_it_ends(task)
        assert (await box.inbox.look("k")).status in ("Unknown", "Free")


async def test_a_body_that_is_cancelled_again_and_again_leaves_no_lease_behind(box: Pillarbox) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with box.inbox.once("k", lease=30):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    await cancelled_until_it_ends(task)
    assert (await box.inbox.look("k")).status == "Free"


class GoesOn(MemoryInbox):
    """A store that gives a lease when it is let, also to one who does not wait for it any more, as databases do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_give = asyncio.Event(), asyncio.Event()

    async def try_begin(self, key: str, **more: Any) -> Begun:
        self.giving = asyncio.create_task(self._give(key, more))
        return await asyncio.shield(self.giving)

    async def _give(self, key: str, more: dict[str, Any]) -> Begun:
        self.asked.set()
        await self.may_give.wait()
        return await super().try_begin(key, **more)


async def test_a_lease_that_is_given_after_the_cancellation_is_given_back() -> None:
    store = GoesOn()
    task = asyncio.create_task(Inbox(store).once("k").__aenter__())
    await store.asked.wait()
    task.cancel()
    await asyncio.sleep(0)
    store.may_give.set()
    await asyncio.wait([task, store.giving])
    assert task.cancelled()
    assert (await store.look("k")).status == "Free"
