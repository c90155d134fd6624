"""How many parts a text message is sent, and paid for, in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Encoding = Literal["gsm-7", "ucs-2"]

# 3GPP TS 23.038: the basic alphabet, and the characters that take an escape and so count twice.
_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_ESCAPED = frozenset("\f^{}\\[~]|€")


def segments(text: str) -> tuple[Encoding, int]:
    """The encoding a text needs and the number of segments it takes; no character is split between two."""
    characters = set(text)
    if characters <= _BASIC | _ESCAPED:
        return "gsm-7", _count((2 if character in _ESCAPED else 1 for character in text), alone=160, joined=153)
    return "ucs-2", _count((2 if character > "\uffff" else 1 for character in text), alone=70, joined=67)


def _count(widths: Iterable[int], *, alone: int, joined: int) -> int:
    count, room, total = 1, joined, 0
    for width in widths:
        total += width
        if width > room:
            count, room = count + 1, joined
        room -= width
    return 1 if total <= alone else count
