"""Texts for a chat: short ones together, long ones in pieces that end where a reader would pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pillarbox.conversations.model import QUOTE, Chat, Kind, Line

LIMITS: Mapping[str, int] = MappingProxyType({"telegram": 4096, "discord": 2000, "slack": 4000, "whatsapp": 4096})
"""The longest text that each platform takes, or shows as one message."""

_FENCE = "```"
_ROOM_FOR_FENCES = 16
_ENDS = ("\n\n", "\n", ". ", "? ", "! ", " ")


def compose(lines: Sequence[Line], chat: Chat, *, limit: int) -> tuple[str, int, int]:
    """What a chat is told next, and the line and position to go on from; empty when none of the lines are for it.

    What people said elsewhere is never in one message with what the agent says.
    """
    text, seq, position = "", chat.seq, chat.position
    told: Kind | None = None
    for line in lines:
        start = position if line.seq == chat.seq else 0
        rest = line.content[start:].strip() if line.is_for(chat) else ""
        if rest:
            joined = f"{text}\n\n{rest}" if text else rest
            if told and (told == "user") != (line.kind == "user"):
                return text, line.seq, 0
            if length(joined) > limit or (start and (line.kind == "user" or _is_open(line.content[:start]))):
                return (text, line.seq, 0) if text else _piece(line, start, limit)
            text, told = joined, line.kind
        seq, position = line.seq + 1, 0
    return text, seq, position


def of_one_turn(lines: Sequence[Line], chat: Chat) -> tuple[list[Line], int | None]:
    """The lines up to the first that belongs with another turn, or is of another kind, and the turn, if an agent speaks."""
    told: tuple[Kind, int] | None = None
    taken: list[Line] = []
    for line in lines:
        if line.is_for(chat) and line.content.strip():
            its: tuple[Kind, int] = (line.kind, line.turn if line.kind == "agent" else 0)
            told = told or its
            if told != its:
                break
        taken.append(line)
    return taken, told[1] if told and told[0] == "agent" else None


def length(text: str) -> int:
    """How long a text is to those platforms: in UTF-16 units, of which an emoji has two."""
    return len(text) + sum(character > "\uffff" for character in text)


def _piece(line: Line, start: int, limit: int) -> tuple[str, int, int]:
    """One piece of a long line; a block of code or a quote that is cut is opened again in the next."""
    content = line.content
    while start < len(content) and content[start].isspace():
        start += 1
    opening = f"{_FENCE}\n" if _is_open(content[:start]) else ""
    if line.kind == "user" and start and not content.startswith(QUOTE, start):
        opening = QUOTE
    end = start + _cut(content[start:], limit - (_ROOM_FOR_FENCES if limit > 100 else 0))
    closing = f"\n{_FENCE}" if _is_open(content[:end]) and end < len(content) else ""
    text = opening + content[start:end].rstrip() + closing
    return (text, line.seq + 1, 0) if not content[end:].strip() else (text, line.seq, end)


def _cut(text: str, limit: int) -> int:
    """Where to end a piece: behind a paragraph, a line, a sentence or a word of its last half, else at the limit."""
    most, size = 0, 0
    for character in text:
        size += 2 if character > "\uffff" else 1
        if size > limit:
            break
        most += 1
    if most == len(text):
        return most
    for end in _ENDS:
        found = text.rfind(end, most // 2, most)
        if found >= 0:
            return found + len(end)
    return most


def _is_open(text: str) -> bool:
    """Whether a text ends inside a block of code."""
    return sum(line.lstrip().startswith(_FENCE) for line in text.split("\n")) % 2 == 1
