"""By which way a chat is written to: the topic, the thread or the number that its messages came by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pillarbox.conversations.lines import queries
from pillarbox.conversations.model import Chat, Line
from pillarbox.storage import Step

_NAMES: Mapping[str, str] = MappingProxyType(
    {"telegram": "thread_id", "discord": "thread_id", "slack": "thread_ts", "whatsapp": "phone_number_id"}
)
_LAST = 2**62
_MOST_CHANGES = 100


class Way(NamedTuple):
    """A way, None while no message has told one, and the message of the session up to which that is known."""

    data: dict[str, Any] | None
    seq: int


class OneWay(NamedTuple):
    """Lines that go one way, and what to remember of it."""

    lines: list[Line]
    data: dict[str, Any]
    kept: Way


def way_in(origin: str, payload: Any) -> dict[str, Any]:
    """The way that a message has come by."""
    wanted = _NAMES.get(origin)
    value = payload.get(wanted) if wanted and isinstance(payload, dict) else None
    return {} if wanted is None or value is None else {wanted: value}


def way_now(session_id: str, origin: str, channel_id: str) -> Step[dict[str, Any]]:
    """The way of what an agent does now."""
    name = {"session_id": session_id, "origin": origin, "channel_id": channel_id}
    kept = yield queries.kept_way(**name)
    turn = yield queries.turn(session_id=session_id)
    known = Way(_loaded(kept[0][0]), kept[0][1]) if kept else Way(None, 0)
    return (yield from _way_at(name, known, turn[0][0] or _LAST if turn else _LAST)).data or {}


def of_one_way(chat: Chat, lines: Sequence[Line], own_ways: Mapping[int, str]) -> Step[OneWay]:
    """The lines up to the first that goes another way: each goes where the chat had written when the agent was asked.

    `own_ways` are those of answers that go where the question was, by their lines.
    """
    kept = Way(_loaded(chat.way), chat.way_seq)
    ways = yield from _ways(chat, kept, [_turn(line) for line in _told(lines, chat) if line.seq not in own_ways])
    taken: list[Line] = []
    data: dict[str, Any] | None = None
    for line in lines:
        if line.is_for(chat) and line.content.strip():
            its = Way(_loaded(own_ways[line.seq]), 0) if line.seq in own_ways else _way_of(ways, _turn(line))
            if its is None and data is None:
                # The first always goes somewhere, however far behind the chat is.
                its = yield from _way_at(_name_of(chat), kept, _turn(line))
            if its is None or (data is not None and (its.data or {}) != data):
                break
            data = its.data or {}
            kept = its if kept.seq < its.seq < _LAST else kept
        taken.append(line)
    return OneWay(taken, data or {}, kept)


def _ways(chat: Chat, kept: Way, turns: Sequence[int]) -> Step[list[Way]]:
    """Which ways a chat has had, from the earliest of these turns on to the latest."""
    if not turns:
        return [kept]
    name = _name_of(chat)
    first = yield from _way_at(name, kept, min(turns))
    if max(turns) <= first.seq:
        return [first]
    rows = yield queries.later_ways(**name, after=first.seq, until=max(turns), limit=_MOST_CHANGES)
    return [first, *(Way(way_in(chat.origin, _loaded(payload)), seq) for seq, payload in rows)]


def _way_of(ways: Sequence[Way], turn: int) -> Way | None:
    """The last way that a chat had at a turn; None where that was not looked for."""
    if len(ways) > _MOST_CHANGES and turn > ways[-1].seq:
        return None
    before = [way for way in ways[1:] if way.seq <= turn]
    return before[-1] if before else ways[0]


def _way_at(name: Mapping[str, str], kept: Way, turn: int) -> Step[Way]:
    """The way of the last message up to that one; before an agent was given any, that of the newest of all."""
    until = max(turn, kept.seq)
    found = (yield queries.last_way(**name, after=kept.seq, until=until)) if until > kept.seq else ()
    if not found and kept.data is None:
        found = yield queries.any_way(**name, after=kept.seq)
    return Way(way_in(name["origin"], _loaded(found[0][0])) if found else kept.data, until)


def _name_of(chat: Chat) -> dict[str, str]:
    return {"session_id": chat.session_id, "origin": chat.origin, "channel_id": chat.channel_id}


def _turn(line: Line) -> int:
    """What was said in no turn goes where its chat has written last."""
    return line.turn or _LAST


def _told(lines: Sequence[Line], chat: Chat) -> Iterator[Line]:
    return (line for line in lines if line.is_for(chat) and line.content.strip())


def _loaded(text: str | None) -> Any:
    return json.loads(text) if text else None
