"""One log over all pipes: every filter finds exactly what it says, page by page, in the order in which it came in."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from pillarbox import Email
from pillarbox.audit import acting_as
from pillarbox.box import Pillarbox
from pillarbox.engine import Lease, Room
from pillarbox.errors import InvalidInput
from pillarbox.filters import EVERYTHING, parse_filter
from pillarbox.operators import tail, walking
from pillarbox.operators.model import Left, LogItem
from tests.operators.filled import backdate, drain, fill, send, sql

Holds = Callable[[LogItem], bool]


def will_be_tried_again(item: LogItem) -> bool:
    return item.status == ("retrying" if item.pipe == "outbound" else "failed")


FILTERS: dict[str, Holds] = {
    "status:failed": lambda item: item.status == "failed",
    "status:pending": lambda item: item.status == "pending",
    "status:sent,delivered": lambda item: item.status in ("sent", "delivered"),
    "status:failed,retrying,sent,dead": lambda item: item.status in ("failed", "retrying", "sent", "dead"),
    "-status:failed": lambda item: item.status != "failed",
    "status:retrying": will_be_tried_again,
    "-status:retrying": lambda item: not will_be_tried_again(item),
    "status:retrying,failed -status:retrying": lambda item: item.status == "failed" and item.pipe == "outbound",
    "status:retrying pipe:inbound": lambda item: item.pipe == "inbound" and item.status == "failed",
    "status:failed -status:failed": lambda item: False,
    "status:dead": lambda item: item.status == "dead",
    "pipe:inbound": lambda item: item.pipe == "inbound",
    "-pipe:inbound,hooks": lambda item: item.pipe == "outbound",
    "tenant:acme": lambda item: item.tenant_id == "acme",
    "tenant:acme status:failed,canceled": lambda item: (
        item.tenant_id == "acme" and item.status in ("failed", "canceled")
    ),
    "tenant:acme,rival status:failed": lambda item: bool(item.tenant_id) and item.status == "failed",
    "-tenant:acme": lambda item: item.tenant_id != "acme",
    "channel:sms": lambda item: item.channel == "sms",
    "tenant:acme to:ANN@example.com": lambda item: item.to_address == "ann@example.com",
    "tenant:acme to:ann@example.com status:pending": lambda item: item.summary == "eight",
    "tenant:acme -to:ann@example.com": lambda item: item.tenant_id == "acme" and item.to_address != "ann@example.com",
    "tenant:acme to:ann@example.com,bob@example.com": lambda item: item.summary in ("one", "seven", "eight"),
    "provider:sandbox": lambda item: item.provider == "sandbox",
    "-provider:sandbox": lambda item: item.provider != "sandbox",
    "tag:news": lambda item: "news" in item.tags,
    'tag:"two words"': lambda item: "two words" in item.tags,
    'tag:"a,b",news': lambda item: bool({"a,b", "news"} & set(item.tags)),
    "-tag:news tenant:acme": lambda item: item.tenant_id == "acme" and "news" not in item.tags,
    "category:marketing": lambda item: item.category == "marketing",
    "priority:<50": lambda item: item.priority is not None and item.priority < 50,
    "priority:>=100 priority:<900": lambda item: item.priority is not None and 100 <= item.priority < 900,
    "session:s1": lambda item: item.session_id == "s1",
    "session:s1 status:pending": lambda item: item.session_id == "s1" and item.status == "pending",
    "session:s1,s2 pipe:hooks": lambda item: item.pipe == "hooks",
    "origin:chat": lambda item: item.origin == "chat",
    "type:text": lambda item: item.type == "text",
    "type:calm,shy": lambda item: item.type in ("calm", "shy"),
    'error:"REJECTED the"': lambda item: "rejected the" in (item.error or ""),
    "-error:sandbox": lambda item: "sandbox" not in (item.error or ""),
    "attempts:0": lambda item: item.attempt_count == 0,
    "attempts:>0 pipe:inbound": lambda item: item.pipe == "inbound" and item.attempt_count > 0,
    "age:<1h": lambda item: True,
    "age:>1h": lambda item: False,
    "id:1": lambda item: item.id == "1",
    "id:nowhere": lambda item: False,
}


async def paged(box: Pillarbox, text: str, limit: int) -> list[LogItem]:
    """Every page of a filter, one after another."""
    found: list[LogItem] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await box.log.page(parse_filter(text), cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
    return found


async def test_every_filter_finds_exactly_what_it_says_at_any_page_size(box: Pillarbox) -> None:
    await fill(box)
    everything = await paged(box, "", 100)
    assert {item.pipe for item in everything} == {"outbound", "inbound", "hooks"}
    assert {"pending", "failed", "sent", "retrying", "canceled", "delivered", "dead"} <= {i.status for i in everything}
    assert [item.created_at for item in everything] == sorted((i.created_at for i in everything), reverse=True)
    for text, holds in FILTERS.items():
        wanted = [item for item in everything if holds(item)]
        assert await paged(box, text, 100) == wanted, text
        assert await paged(box, text, 2) == wanted, text
        assert (await box.log.count(parse_filter(text))).matching == len(wanted), text


async def test_a_match_is_found_however_much_lies_on_top_of_it(box: Pillarbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WINDOW", 3)
    await fill(box)
    everything = await paged(box, "", 100)
    for text, holds in FILTERS.items():
        assert await paged(box, text, 4) == [item for item in everything if holds(item)], text


async def test_events_that_are_being_delivered_are_found_as_such(box: Pillarbox) -> None:
    for session in ("s1", "s2"):
        await box.sessions.open(session_id=session, target={"kind": "none"})
        await box.hooks.post(session, "agent_stop")
        await box.hooks.post(session, "agent_stop")
    now = box.database.clock.now()
    (strand,) = await box.hooks.lane.claim(Lease("me", timedelta(minutes=1)), room=Room(1, 1), now=now)
    held = {str(row.id) for row in strand.rows}
    await box.hooks.post(strand.key, "agent_stop")
    for limit in (1, 100):
        assert {(i.id, i.attempt_count) for i in await paged(box, "status:processing", limit)} == {(i, 1) for i in held}
        assert {item.id for item in await paged(box, "attempts:>0 pipe:hooks", limit)} == held
        assert len(await paged(box, f"session:{strand.key} status:pending", limit)) == 1
        assert len(await paged(box, "status:pending", limit)) == 3


async def test_old_messages_are_reached_without_passing_the_new_ones(box: Pillarbox) -> None:
    await box.sessions.open(session_id="s1", target={"kind": "none"})
    for number in range(20):
        await box.inbound.enqueue(session_id="s1", origin="chat", content=str(number))
    now = box.database.clock.now()
    await sql(box, "UPDATE inbound_queue SET created_at = :at WHERE id <= 10", at=now - timedelta(days=2))
    assert [item.summary for item in await paged(box, "age:>1d", 3)] == [str(n) for n in reversed(range(10))]
    assert [item.summary for item in await paged(box, "age:<1d", 3)] == [str(n) for n in reversed(range(10, 20))]
    assert (await paged(box, "age:>1d age:<3d session:s1", 3))[0].summary == "9"


async def test_what_came_in_late_with_an_old_date_hides_nothing(box: Pillarbox) -> None:
    await fill(box)
    before = {(item.pipe, item.id) for item in await paged(box, "", 100)}
    await backdate(box, "hook_outbox", box.database.clock.now() - timedelta(days=1))
    await sql(box, "UPDATE hook_outbox SET created_at = :at WHERE id = 2", at=box.database.clock.now())
    for limit in (1, 3, 100):
        assert {(item.pipe, item.id) for item in await paged(box, "", limit)} == before
        assert len(await paged(box, "", limit)) == len(before)


async def test_a_recipient_needs_a_tenant_and_a_cursor_its_own_filter(box: Pillarbox) -> None:
    await fill(box)
    with pytest.raises(InvalidInput, match="needs one tenant"):
        await box.log.page(parse_filter("to:ann@example.com"))
    page = await box.log.page(EVERYTHING, limit=1)
    assert page.next_cursor is not None
    digest = page.next_cursor.split('"')[1]
    forged = [
        f'["{digest}",{{"{name}":{place}}}]' for name, place in (("outbound0", 5), ("inbound1", '"x"'), ("x", []))
    ]
    for cursor, text in (
        (page.next_cursor, "status:sent"),
        ("nonsense", ""),
        ("5", ""),
        ("null", ""),
        *((each, "") for each in forged),
    ):
        with pytest.raises(InvalidInput, match="cursor"):
            await box.log.page(parse_filter(text), cursor=cursor or "")


async def test_a_follower_hears_of_what_comes_in_and_of_every_change(box: Pillarbox) -> None:
    (older,) = await send(box, Email(to="flaky@example.com", subject="older", text="t"))
    async with asyncio.timeout(20), box.log.follow(parse_filter("tenant:acme")) as changes:
        await send(box, Email(to="ann@example.com", subject="not this one", text="t"), tenant="rival")
        (newer,) = await send(box, Email(to="ann@example.com", subject="newer", text="t"))
        heard: list[tuple[str, str]] = []
        acted = False
        async for change in changes:
            if isinstance(change, LogItem):
                heard.append((change.id, change.status))
            if (newer, "pending") in heard and not acted:
                acted = True
                await drain(box)
            if {(older, "retrying"), (newer, "sent")} <= set(heard):
                break
    assert {message_id for message_id, _ in heard} == {older, newer}


async def test_a_follower_is_told_what_no_longer_matches(box: Pillarbox) -> None:
    sent = await send(
        box,
        Email(to="ann@example.com", subject="first", text="t"),
        Email(to="bob@example.com", subject="second", text="t"),
    )
    heard: list[LogItem | Left] = []
    async with asyncio.timeout(20), box.log.follow(parse_filter("status:pending")) as changes:
        (third,) = await send(box, Email(to="cy@example.com", subject="third", text="t"))
        async for change in changes:
            if change is not None:
                heard.append(change)
            elif not any(isinstance(each, Left) for each in heard):
                await drain(box)
            if {each.id for each in heard if isinstance(each, Left)} == {*sent, third}:
                break
    assert [(each.id, each.status) for each in heard if isinstance(each, LogItem)] == [(third, "pending")]


async def test_what_has_ended_leaves_too_when_something_else_becomes_of_it(box: Pillarbox) -> None:
    (message_id,) = await send(box, Email(to="ann@example.com", subject="s", text="t"))
    await drain(box)
    async with asyncio.timeout(20), box.log.follow(parse_filter("status:sent")) as changes:
        await sql(box, "UPDATE message_history SET status = 'delivered'")
        async for change in changes:
            if change is not None:
                assert change == Left(pipe="outbound", id=message_id)
                break


async def test_what_grows_too_old_leaves(box: Pillarbox) -> None:
    (message_id,) = await send(box, Email(to="ann@example.com", subject="s", text="t"))
    await drain(box)
    async with asyncio.timeout(20), box.log.follow(parse_filter("age:<1h")) as changes:
        await backdate(box, "message_history", box.database.clock.now() - timedelta(hours=2))
        async for change in changes:
            if change is not None:
                assert change == Left(pipe="outbound", id=message_id)
                break


async def test_an_action_is_heard_of_however_many_others_were_noted(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "_MOST_ACTIONS", 3)
    monkeypatch.setattr(tail, "_PAGE", 1)
    monkeypatch.setattr(tail, "_MOST_PAGES", 1)
    (canceled,) = await send(box, Email(to="ann@example.com", subject="s", text="t"))
    await box.outbound.cancel(canceled)
    async with asyncio.timeout(20), box.log.follow() as changes:
        await send(box, *[Email(to="bob@example.com", subject=str(at), text="t") for at in range(3)])
        with acting_as("cli:ann"):
            for at in range(5):
                await box.tenants.set(f"other{at}", providers={})
            await box.outbound.retry(canceled)
        async for change in changes:
            if isinstance(change, LogItem) and (change.id, change.status) == (canceled, "pending"):
                break


async def test_an_error_is_found_by_the_same_letters_on_every_database(box: Pillarbox) -> None:
    (message_id,) = await send(box, Email(to="fail@example.com", subject="s", text="t"))
    await drain(box)
    await sql(box, "UPDATE message_history SET error_message = 'Die Straße nach ÜBERLINGEN Is Closed'")
    for text, found in (
        ("is cLOSED", True),
        ("straße", True),
        ("STRAßE", True),
        ("STRASSE", False),
        ("Überlingen", True),
        ("überlingen", False),
    ):
        items = (await box.log.page(parse_filter(f'error:"{text}"'))).items
        assert [item.id for item in items] == [message_id] * found, text
