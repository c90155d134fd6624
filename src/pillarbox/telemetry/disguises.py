"""The ways in which a text is commonly written, so that it is found again in whichever of them."""

from __future__ import annotations

import html
import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

LONGEST = 256
"""So many letters and digits of a form are looked for; what goes on after them belongs to it to the end of a text."""

TELLING = 2 * LONGEST
"""So much of a secret is enough to find it."""

_ROUNDS = 4
_ESCAPED = re.compile(r"""\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([bfnrt"'\\/]))""")
_STANDS_FOR = {"b": " ", "f": " ", "n": "\n", "r": "\r", "t": "\t"}
_NO_LETTER = re.compile(r"[\W_]+")
_GAP = re.compile(r"\s+")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){2,}[0-9a-fA-F]{2,}")
_CODED = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_URL_SAFE = str.maketrans("-_", "+/")
# What is shorter would be found by chance inside of other words.
_LEAST_PLAIN = 8
_LEAST_CODED = 6
# Of so many bytes before it, the digits of base64 that still tell of them.
_TOLD_BEFORE = (0, 2, 3)


def plainly_written(text: str) -> str:
    """A text without the disguises of JSON, HTML and URLs."""
    for _ in range(_ROUNDS):
        bare = unquote(html.unescape(_ESCAPED.sub(_meant, text)))
        if bare == text:
            break
        text = bare
    return text


def letters(text: str) -> str:
    """Only letters and digits: however a text is broken, spaced or quoted, they are the same."""
    return _NO_LETTER.sub("", text).lower()


def readings(text: str) -> Iterator[str]:
    """What somebody could read in a text: first what it says plainly, then what stands in it as base64 or hex."""
    plain = plainly_written(text)
    yield plain
    for whole in {plain, _GAP.sub(_unless_it_ends_a_line, plain)}:
        coded = [run for run in _CODED.findall(whole) if not _is_a_word(run)]
        yield " ".join(map(_decoded, coded))
        if longer := [run for run in coded if len(run) >= _LEAST_PLAIN]:
            yield from (" ".join(_decoded(run[start:]) for run in longer) for start in (1, 2, 3))
    runs = _HEX.findall(plain)
    yield from (" ".join(_from_hex(run[start:]) for run in runs) for start in range(2) if runs)


def forms(secret: str) -> set[str]:
    """The letters and digits of a secret as it is, in base64 wherever it begins in it, and in hex; each to a length."""
    secret = secret[:TELLING]
    raw = secret.encode("utf-8", "replace")
    coded = {_bones(form)[:LONGEST] for form in (*_in_base64(raw), raw.hex())}
    plain = _bones(secret)[:LONGEST]
    return {form for form in coded if len(form) >= _LEAST_CODED} | ({plain} if len(plain) >= _LEAST_PLAIN else set())


def spans(text: str, sought: Iterable[str]) -> list[tuple[int, int]]:
    """Where forms stand in a text, in order and apart from each other."""
    places, bones = _one_by_one(text)
    found = []
    for form in sought:
        at = bones.find(form)
        while at >= 0:
            goes_on = len(form) == LONGEST
            found.append((places[at], len(text) if goes_on else places[at + len(form) - 1] + 1))
            at = bones.find(form, at + 1)
    apart: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if apart and start < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart


def without_last_letters(text: str, count: int) -> str:
    """A text up to where so many letters and digits are left."""
    places, _ = _one_by_one(text)
    return text[: places[-count]] if len(places) >= count else ""


def basic_pair(word: str) -> tuple[str, ...]:
    """The name and password in a word of HTTP's Basic authentication, together and each; nothing of any other word."""
    try:
        pair = b64decode(word.translate(_URL_SAFE) + "=" * (-len(word) % 4), validate=True).decode()
    except (Error, ValueError):
        return ()
    name, colon, password = pair.partition(":")
    return (pair, name, password) if colon and pair.isprintable() else ()


def _meant(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _STANDS_FOR.get(found[3], found[3])


def _unless_it_ends_a_line(gap: re.Match[str]) -> str:
    return "" if "\n" in gap[0] else gap[0]


def _is_a_word(run: str) -> bool:
    """What is that long in base64 is hardly ever written like a word."""
    return len(run) > 4 and run.isalpha() and run[1:].islower()


def _decoded(run: str) -> str:
    whole = run[: len(run) - (len(run) % 4 == 1)].translate(_URL_SAFE)
    return b64decode(whole + "=" * (-len(whole) % 4)).decode("utf-8", "ignore")


def _from_hex(run: str) -> str:
    digits = letters(run)
    return bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "ignore")


def _in_base64(raw: bytes) -> Iterator[str]:
    for before, told in enumerate(_TOLD_BEFORE):
        yield b64encode(bytes(before) + raw).decode()[told : 8 * (before + len(raw)) // 6]


def _one_by_one(text: str) -> tuple[list[int], str]:
    """Where letters and digits stand in a text, and one of each."""
    places = [at for at, char in enumerate(text) if char.isalnum()]
    return places, _bones(text)


def _bones(text: str) -> str:
    return letters(text) if text.isascii() else "".join([char.lower()[0] for char in text if char.isalnum()])
