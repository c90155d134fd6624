"""What a run of tests with a planted bug has shown."""

from __future__ import annotations

import re

_FAILED = re.compile(r"^(?:FAILED|ERROR) \S+?::(\S+)", re.MULTILINE)
# Taking exactly one thing out of a set is how many tests assert that there is one.
_WRONG = re.compile(r"^E +(?:AssertionError|assert |Failed: (?!Timeout)|ValueError: .* values to unpack)", re.MULTILINE)
_HUNG = re.compile(r"^E +Failed: Timeout", re.MULTILINE)


def failing(said: str) -> list[str]:
    """The tests that failed, for whatever cause."""
    return sorted(set(_FAILED.findall(said)))


def findings(said: str, *, hangs: bool) -> list[str]:
    """The tests that found the bug.

    A test that breaks down, or is ended because it takes too long, has noticed something; only one that says what is wrong has
    found the bug, unless hanging is what the bug does.
    """
    return failing(said) if _WRONG.search(said) or (hangs and _HUNG.search(said)) else []
