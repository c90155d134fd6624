"""What a line of text looks like to a reader: without what cannot be seen, every bracket and quotation mark the common one."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159")
QUOTES = frozenset("“”„‟❝❞〝〞〟")

# Format characters, marks without a width, which variation selectors are too, and code points that mean nothing.
_UNSEEN = ("Cf", "Mn", "Me", "Cn", "Cs", "Co")
_PRIMES = frozenset(
    "\u2032\u2033\u2034\u2057\u2035\u2036\u2037\u02b9\u02ba\u02ca\u02cb\u02dd\u02ee\u02bc\u02bb\u05f4\u05f3\u3003\xb4"
)
# An opening bracket that is none of these looks like the square one.
_OTHER_BRACKETS = ("PARENTHESIS", "CURLY", "ANGLE", "CORNER", "QUOTATION", "ORNAMENT TURNED")
# Stands for every quotation mark but the common one.
_MARK = "\ue000"

_ENVELOPES = (
    # A bracket and a quotation, and then nothing that JSON would have there.
    re.compile(r'\s*\[\s*"(?:[^"\\]|\\.)*(?:"\s*[^\s,\]]|\\?$)'),
    # Another kind of quotation, which JSON has not, and then nothing that a list would have there.
    re.compile(rf"""\s*\[\s*(?:{_MARK}|'')[^{_MARK}"']*(?:[{_MARK}"']+\s*[^\s,\]]|$)"""),
    re.compile(rf"""\s*\[\s*'[^{_MARK}"']*[{_MARK}"']+\s*[^\s,\]{_MARK}"']"""),
    # A quotation that seems to end otherwise than it begins, and the end of an envelope before it ends as JSON has it.
    re.compile(rf"""\s*\[\s*"[^"{_MARK}']*[{_MARK}'][^"]*\]"""),
    re.compile(rf"""\s*\[\s*"[^"]*?[{_MARK}']\s*via\b"""),
)


def opens_bracket(line: str) -> bool:
    """Whether the first thing to be seen in a line is a square bracket, or looks like one."""
    first = next((c for c in line if not c.isspace() and not _is_unseen(c)), "")
    return bool(first) and _folded(first).startswith("[")


def begins_as_envelope(line: str) -> bool:
    """Whether a line begins as an envelope does and JSON never, in whatever letters and with invisible ones between them."""
    if not opens_bracket(line):
        return False
    seen = "".join(_folded(c) for c in line if not _is_unseen(c)).casefold()
    return any(envelope.match(seen) for envelope in _ENVELOPES)


def _is_unseen(character: str) -> bool:
    return character in BLANK_LETTERS or (character > "\x7f" and unicodedata.category(character) in _UNSEEN)


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    """The common character that one looks like."""
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if character in QUOTES or character in _PRIMES or category in ("Pi", "Pf"):
        return _MARK
    plain = unicodedata.normalize("NFKC", character)
    name = unicodedata.name(character, "")
    if "LEFT SQUARE BRACKET" in name:
        return "["
    if category == "Ps" and plain[:1] not in "[({" and not any(other in name for other in _OTHER_BRACKETS):
        return "["
    return plain
