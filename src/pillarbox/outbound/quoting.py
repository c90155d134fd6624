"""Whether an answer quotes the message that it answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from pillarbox.outbound.known import NAMED
from pillarbox.outbound.provider import Outgoing
from pillarbox.telemetry.disguises import letters, plainly_written, readings

_RUN = 6
_LEAST_NUMBER = 4
_MOST_SAID = 32 * 1024
_MOST_OF_A_FILE = 4 * 1024
_TOKEN = re.compile(r"[^\W_]+")


class Said:
    """What a message says, to tell whether a text quotes it: it does if both have a few letters or digits in a row."""

    def __init__(self, message: Outgoing) -> None:
        self._message = message

    def is_quoted_in(self, text: str) -> bool:
        """Whether a text may quote the message, in whichever way it is written."""
        if self._texts is None:
            return True
        plain, *coded = readings(text)
        return self._stands_in(plain) or any(
            self._stands_in(reading) or not self._people.isdisjoint(_runs(reading)) for reading in coded
        )

    def _stands_in(self, reading: str) -> bool:
        if not self._words.isdisjoint(_TOKEN.findall(reading.lower())):
            return True
        return not self._runs.isdisjoint(_runs(reading))

    @cached_property
    def _texts(self) -> list[str] | None:
        """What it says, or None where that is too long to be looked for."""
        texts, left = [], _MOST_SAID
        for text in _texts(self._message):
            left -= len(text)
            if left < 0:
                return None
            texts.append(text)
            if (plain := plainly_written(text)) != text:
                texts.append(plain)
        return texts

    @cached_property
    def _runs(self) -> set[str]:
        return {run for text in self._texts or () for run in _runs(text)}

    @cached_property
    def _people(self) -> set[str]:
        """Whom it is for; a text that names them plainly is shown with their addresses masked."""
        message = self._message
        return {run for person in (message.to, *message.cc, *message.bcc) for run in _runs(person)}

    @cached_property
    def _words(self) -> set[str]:
        """Short words that mean something by themselves: numbers, all of a short text, and whatever a webhook says."""
        every = self._message.channel == "webhook"
        words: set[str] = set()
        for text in self._texts or ():
            whole = every or len(letters(text)) < _RUN
            tokens = _TOKEN.findall(text.lower())
            words.update(word for word in tokens if whole or (len(word) >= _LEAST_NUMBER and not word.isalpha()))
        return words


def _runs(text: str) -> Iterable[str]:
    bare = letters(text)
    return [bare[at : at + _RUN] for at in range(len(bare) - _RUN + 1)]


def _texts(message: Outgoing) -> Iterator[str]:
    yield from filter(None, (message.subject, message.text, message.html))
    if message.body:
        yield message.body[: _MOST_SAID + 1].decode("utf-8", "replace")
    yield from _leaves(message.data)
    for person in (message.to, message.reply_to, message.sender, *message.cc, *message.bcc):
        if person and (named := NAMED.fullmatch(person)):
            yield named[1]
    for file in message.attachments:
        yield file.filename
        yield file.content[:_MOST_OF_A_FILE].decode("utf-8", "replace")


def _leaves(value: Any) -> Iterator[str]:
    """The keys and values in a message's data."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from (str(key), *_leaves(each))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
