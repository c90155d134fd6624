"""How far an adapter has read moves with the message that it read, on either database."""

import asyncio
from typing import Any

import pytest

from pillarbox.errors import SessionClosed
from pillarbox.inbound.model import NewMessage
from pillarbox.inbound.positions import Position, Positions
from tests.contracts.boxes import Node

FAR = 2**62


def read(node: Node) -> Positions:
    return Positions(node.database, "chat")


async def put(node: Node, number: int, *, place: str = "a", **fields: Any) -> None:
    new = NewMessage(session_id="s", origin="chat", content="hi", source_message_id=str(number), **fields)
    await node.inbound.put(new, position=Position("chat", place, number))


async def test_it_moves_with_each_message_and_never_back(node: Node) -> None:
    await node.open("s")
    for number in (3, 1, FAR, 2):
        await put(node, number)
    await asyncio.gather(*(put(node, number, place="b") for number in range(10, 60)))
    assert await read(node).known() == {"a": FAR, "b": 59}
    assert await Positions(node.database, "another").known() == {}


async def test_it_moves_with_a_message_that_was_stored_before(node: Node) -> None:
    await node.open("s")
    await node.put("s", source_message_id="7")
    await put(node, 7)
    assert await read(node).known() == {"a": 7}


async def test_it_stays_where_it_is_when_a_message_is_refused(node: Node) -> None:
    await node.open("s")
    await put(node, 1)
    await node.sessions.close("s")
    with pytest.raises(SessionClosed):
        await put(node, 2)
    assert await read(node).known() == {"a": 1}


async def test_a_place_can_be_passed_by_and_forgotten(node: Node) -> None:
    positions = read(node)
    await positions.move("a", 5)
    await positions.move("a", 4)
    assert await positions.known() == {"a": 5}
    await positions.forget("a")
    assert await positions.known() == {}
