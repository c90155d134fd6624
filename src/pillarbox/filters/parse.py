"""Reading a filter: terms between blanks, values between commas, quotes around what holds either."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import cast

from pillarbox.errors import InvalidInput
from pillarbox.filters.model import Comparison, Filter, Term, Value
from pillarbox.filters.words import WORDS, Word
from pillarbox.text import check_name, printable

LONGEST = 1000
_MOST_TERMS = 20
_MOST_VALUES = 20
_LARGEST = 2**31

_BLANK = re.compile(r"\s+")
_NAME = re.compile(r"(-?)([A-Za-z_]+):")
_VALUE = re.compile(r'"((?:[^"\\]|\\["\\])*)"|([^\s,"\\]+)')
_WRITTEN = re.compile(r"\S+")
_NUMBER = re.compile(r"(<=|>=|<|>|)([0-9]{1,10})")
_SPAN = re.compile(r"(<=|>=|<|>)([0-9]{1,7})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_SPAN = 36_500 * 86_400


def parse_filter(text: str, *, field: str = "filter") -> Filter:
    """The filter that a text means; what cannot be read is named, with what could stand there instead."""
    if len(text) > LONGEST:
        raise InvalidInput(field, f"must have at most {LONGEST} characters.")
    terms: list[Term] = []
    at = _past_blanks(text, 0)
    while at < len(text):
        term, at = _term(text, at, field)
        terms.append(term)
        at = _past_blanks(text, at)
        if len(terms) > _MOST_TERMS:
            raise InvalidInput(field, f"must have at most {_MOST_TERMS} terms.")
    return Filter(tuple(terms))


def _past_blanks(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _term(text: str, at: int, field: str) -> tuple[Term, int]:
    named = _NAME.match(text, at)
    if named is None:
        written = _WRITTEN.match(text, at)
        assert written is not None
        raise InvalidInput(
            field, f"{printable(written[0], 40)} is no term; write NAME:VALUE, as in status:failed. {_known()}"
        )
    word = WORDS.get(named[2].lower())
    if word is None:
        raise InvalidInput(field, f"{printable(named[2], 40)} is no word that can be filtered by. {_known()}")
    values, end = _values(text, named.end(), word, field)
    return Term(word.name, values, negated=bool(named[1])), end


def _values(text: str, at: int, word: Word, field: str) -> tuple[tuple[Value, ...], int]:
    values: list[Value] = []
    while True:
        found = _VALUE.match(text, at)
        if found is None:
            raise _wrong(field, word, "needs a value, in quotes where it holds blanks, commas or quotes")
        written = found[2] if found[1] is None else re.sub(r'\\(["\\])', r"\1", found[1])
        values.append(_value(written, word, field))
        if len(values) > _MOST_VALUES:
            raise _wrong(field, word, f"may have at most {_MOST_VALUES} values")
        at = found.end()
        if at == len(text) or text[at].isspace():
            return tuple(values), at
        if text[at] != ",":
            raise _wrong(field, word, "needs blanks or a comma behind each value")
        at += 1


def _value(written: str, word: Word, field: str) -> Value:
    match word.kind:
        case "choice":
            if written.lower() not in word.choices:
                raise _wrong(field, word, f"must be one of {', '.join(word.choices)}")
            return Value(written.lower(), written.lower())
        case "number":
            number = _NUMBER.fullmatch(written)
            if number is None or int(number[2]) >= _LARGEST:
                raise _wrong(field, word, f"must be a number, as in {word.name}:50 or {word.name}:<50")
            return Value(int(number[2]), written, cast("Comparison", number[1] or "="))
        case "span":
            span = _SPAN.fullmatch(written)
            seconds = int(span[2]) * _SECONDS[span[3]] if span else 0
            if span is None or seconds > _LONGEST_SPAN:
                raise _wrong(field, word, f"must be < or > and a time, as in {word.name}:>5m, {word.name}:<2h")
            return Value(timedelta(seconds=seconds), written, cast("Comparison", span[1]))
        case _:
            check_name(field, written, most=word.longest)
            return Value(written, written)


def _wrong(field: str, word: Word, detail: str) -> InvalidInput:
    return InvalidInput(field, f"{word.name} {detail}.")


def _known() -> str:
    return f"Known words: {', '.join(WORDS)}."
