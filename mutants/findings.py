"""What a run of tests with a planted bug has shown."""

from __future__ import annotations

import re

_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+?::(\S+)", re.MULTILINE)
_FAILURES = re.compile(r"^=+ FAILURES =+$(.*?)^=+ ", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^_+ (?!_ )(\S.*?) _+$", re.MULTILINE)
_CAPTURED = re.compile(r"^-+ Captured ", re.MULTILINE)
_PLACE = re.compile(r"^(\S+?\.py):\d+: in .*$", re.MULTILINE)
_WRONG = re.compile(r"E +(?:AssertionError|assert |Failed: (?!Timeout))")
_SAID = re.compile(r"^E +.*$", re.MULTILINE)


def failing(said: str) -> list[str]:
    """The tests that failed, for whatever cause."""
    return sorted(set(_FAILED.findall(said)))


def findings(said: str) -> list[str]:
    """The tests that found the bug.

    A test that breaks down, is never set up, or is ended because it takes too long, has noticed something; only one that says
    what is wrong has found the bug: an assertion of the tests, and none of the code that they try.
    """
    failures = _FAILURES.search(said)
    titles_and_texts = _TITLE.split(failures[1])[1:] if failures else []
    pairs = zip(titles_and_texts[::2], titles_and_texts[1::2], strict=True)
    return sorted({title for title, text in pairs if _asserts(_CAPTURED.split(text)[0])})


def _asserts(text: str) -> bool:
    """Whether what was raised last was raised by an assertion in a file of the tests."""
    places = list(_PLACE.finditer(text))
    if not places or not places[-1][1].startswith("tests/"):
        return False
    first = _SAID.search(text, places[-1].end())
    return first is not None and _WRONG.match(first[0]) is not None
