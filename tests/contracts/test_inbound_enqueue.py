"""What an enqueue promises: each message once, in order, or an error that the caller sees."""

import asyncio
from datetime import timedelta

import pytest

from pillarbox.errors import DuplicateMismatch, NotFound, SessionClosed
from pillarbox.inbound import strands
from pillarbox.inbound.model import Enqueued, NewMessage
from pillarbox.inbound.strands import Checked
from pillarbox.storage import Step
from tests.contracts.boxes import Node


def set_of(*messages: NewMessage) -> list[Checked]:
    return [Checked(message, None) for message in messages]


def message(session_id: str, content: str, source: str | None = None) -> NewMessage:
    return NewMessage(session_id=session_id, origin="chat", content=content, source_message_id=source)


async def enqueue_set(node: Node, *messages: NewMessage) -> list[Enqueued | Exception]:
    def work() -> Step[list[Enqueued | Exception]]:
        return (yield from strands.enqueue(set_of(*messages), now=node.now, gate=timedelta(0)))

    return await node.database.write(work)


async def test_a_source_id_makes_one_message(node: Node) -> None:
    await node.open("s")
    first = await node.put("s", source_message_id="m")
    again = await node.put("s", source_message_id="m")
    assert (again.id, again.seq, again.duplicate, again.status) == (first.id, first.seq, True, "pending")
    assert await node.statuses("s") == ["pending"]


async def test_a_duplicate_learns_what_became_of_its_message(node: Node) -> None:
    await node.open("s")
    await node.put("s", source_message_id="m")
    await node.settle(await node.claim_one())
    assert (await node.put("s", source_message_id="m")).status == "delivered"
    await node.sessions.close("s")
    assert (await node.put("s", source_message_id="m")).status == "delivered"


async def test_fifty_concurrent_enqueues_of_one_source_id_make_one_row(node: Node, other: Node) -> None:
    await node.open("s")
    answers = await asyncio.gather(*((node, other)[n % 2].put("s", source_message_id="m") for n in range(50)))
    assert len({answer.id for answer in answers}) == 1
    assert sum(not answer.duplicate for answer in answers) == 1
    assert await node.statuses("s") == ["pending"]


async def test_one_source_id_at_once_from_two_nodes_makes_one_message(node: Node, other: Node) -> None:
    """For two sessions, so that no lock on a session puts the two in order."""
    for session in ("a", "b"):
        await node.open(session)
    for number in range(20):
        answers = await asyncio.gather(
            node.put("a", source_message_id=f"m{number}"),
            other.put("b", source_message_id=f"m{number}"),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["DuplicateMismatch", "Enqueued"]
    assert [*(await node.statuses("a")), *(await node.statuses("b"))] == ["pending"] * 20


async def test_fifty_transactions_with_one_source_id_make_one_row(node: Node) -> None:
    """Each in a transaction of its own, so that only the index can decide."""
    for session in range(5):
        await node.open(f"s{session}")
    answers = await asyncio.gather(*(enqueue_set(node, message(f"s{n % 5}", "hi", "m")) for n in range(50)))
    made = [answer for (answer,) in answers if isinstance(answer, Enqueued) and not answer.duplicate]
    assert len(made) == 1
    assert all(isinstance(answer, Enqueued | DuplicateMismatch) for (answer,) in answers)
    statuses = [status for n in range(5) for status in await node.statuses(f"s{n}")]
    assert statuses == ["pending"]


async def test_sets_with_the_same_source_ids_in_other_orders_all_end(node: Node) -> None:
    """Each waits for rows the other inserts first; whoever is the victim of the deadlock is run again."""
    for session in "ab":
        await node.open(session)
    sources = [f"m{number}" for number in range(20)]
    answers = await asyncio.gather(
        *(
            enqueue_set(node, *(message("ab"[turn % 2], "x", source) for source in sources[:: 1 - 2 * (turn % 2)]))
            for turn in range(6)
        )
    )
    made = [a for answer in answers for a in answer if isinstance(a, Enqueued) and not a.duplicate]
    assert len(made) == 20
    assert len({a.id for a in made}) == 20


async def test_the_same_number_in_two_origins_is_two_messages(node: Node) -> None:
    await node.open("s")
    first = await node.put("s", origin="telegram", source_message_id="1")
    second = await node.put("s", origin="discord", source_message_id="1")
    assert not second.duplicate
    assert second.id != first.id


@pytest.mark.parametrize("source", ["bot:1:7", "bot:2:7"])
async def test_two_chats_with_the_same_number_are_two_messages(node: Node, source: str) -> None:
    await node.open("s")
    await node.put("s", source_message_id="bot:3:7")
    assert not (await node.put("s", source_message_id=source)).duplicate


async def test_messages_without_a_source_id_are_never_duplicates(node: Node) -> None:
    await node.open("s")
    assert [(await node.put("s", "same")).seq for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("change", [{"content": "other"}, {"message_type": "file"}, {"session_id": "t"}])
async def test_a_source_id_used_for_another_message_is_refused(node: Node, change: dict[str, str]) -> None:
    await node.open("s")
    await node.open("t")
    await node.put("s", "hi", source_message_id="m")
    with pytest.raises(DuplicateMismatch):
        await node.inbound.enqueue(
            **{"session_id": "s", "origin": "chat", "content": "hi", "source_message_id": "m"} | change  # type: ignore[arg-type]
        )
    assert await node.statuses("s") == ["pending"]
    assert await node.statuses("t") == []


async def test_duplicates_within_one_set_are_found(node: Node) -> None:
    await node.open("s")
    first, same, other, plain = await enqueue_set(
        node, message("s", "hi", "m"), message("s", "hi", "m"), message("s", "else", "m"), message("s", "hi")
    )
    assert isinstance(first, Enqueued)
    assert isinstance(same, Enqueued)
    assert isinstance(plain, Enqueued)
    assert (first.duplicate, same.duplicate, same.id) == (False, True, first.id)
    assert isinstance(other, DuplicateMismatch)
    assert (plain.seq, plain.duplicate) == (2, False)


async def test_each_of_a_set_is_answered_for_itself(node: Node) -> None:
    await node.open("open")
    await node.open("closed")
    await node.sessions.close("closed")
    answers = await enqueue_set(node, message("closed", "a"), message("open", "b"), message("unknown", "c"))
    assert isinstance(answers[0], SessionClosed)
    assert isinstance(answers[1], Enqueued)
    assert isinstance(answers[2], NotFound)
    assert await node.statuses("open") == ["pending"]


async def test_a_source_id_refused_by_a_closed_session_is_free_for_another_of_the_same_set(node: Node) -> None:
    await node.open("open")
    await node.open("closed")
    await node.sessions.close("closed")
    refused, taken = await enqueue_set(node, message("closed", "a", "m"), message("open", "a", "m"))
    assert isinstance(refused, SessionClosed)
    assert isinstance(taken, Enqueued)
    assert not taken.duplicate


async def test_seqs_have_no_gaps_and_follow_the_order_of_the_callers(node: Node, other: Node) -> None:
    for session in "abc":
        await node.open(session)
    await asyncio.gather(*((node, other)[n % 2].put("abc"[n % 3], str(n)) for n in range(300)))
    for session in "abc":
        stored = await node.inbound.list(session_id=session, limit=1000)
        assert [message.seq for message in stored] == list(range(1, 101))
        mine = [int(message.content) for message in stored if int(message.content) % 2 == 0]
        assert mine == sorted(mine)


async def test_one_callers_messages_keep_their_order(node: Node, other: Node) -> None:
    await node.open("s")

    async def talk(speaker: Node, name: str) -> None:
        for number in range(30):
            await speaker.put("s", f"{name}{number}")

    await asyncio.gather(talk(node, "a"), talk(other, "b"), talk(node, "c"))
    contents = [message.content for message in await node.inbound.list(session_id="s", limit=1000)]
    for name in "abc":
        assert [content for content in contents if content[0] == name] == [f"{name}{number}" for number in range(30)]


async def test_only_the_dedup_index_means_duplicate(node: Node) -> None:
    """Any other violation is an error that the caller sees (D16)."""
    await node.open("s")
    await node.put("s")
    await node.sql("UPDATE inbound_strand SET next_seq = 1 WHERE session_id = 's'")
    with pytest.raises(Exception, match=r"(?i)unique|duplicate key"):
        await node.put("s", source_message_id="m")
    assert await node.statuses("s") == ["pending"]


async def test_text_comes_back_as_it_went_in(node: Node) -> None:
    await node.open("s")
    content = "\U0001f4ee 'quoted' \"double\" \\n %s {x} :name\r\n\t\u202eright-to-left\ufeff e\u0301 \x1b[31m"
    put = await node.put(
        "s", content, actor_name="Zoë \U0001f468\u200d\U0001f469\u200d\U0001f467", payload={"k": content}
    )
    strand = await node.claim_one()
    stored = strand.rows[0].message
    assert stored == await node.get(put.id)
    assert (stored.content, stored.actor_name) == (content, "Zoë \U0001f468\u200d\U0001f469\u200d\U0001f467")


async def test_a_megabyte_is_a_message_too(node: Node) -> None:
    await node.open("s")
    put = await node.put("s", "x" * 1_000_000)
    assert len((await node.get(put.id)).content) == 1_000_000
