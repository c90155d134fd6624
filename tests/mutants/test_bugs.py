"""`make mutants` shows that each planted bug is found; here only that each can still be planted, and what counts as found."""

import ast
import re
from pathlib import Path

import pytest

from mutants.bug import Bug
from mutants.bugs import BUGS
from mutants.findings import findings

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_fits_the_code_as_it_is(bug: Bug) -> None:
    for file, planted in bug.applied(ROOT).items():
        assert planted != (ROOT / file).read_text()
        if file.endswith(".py"):
            ast.parse(planted)
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{test} is not there"


def test_each_bug_has_a_name_of_its_own_and_there_are_enough() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 15


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("E   AssertionError: assert 2 == 1\nFAILED tests/a.py::test_it - AssertionError", ["test_it"]),
        ("E   assert 2 == 1\nFAILED tests/a.py::test_it - assert 2 == 1", ["test_it"]),
        ("E   Failed: DID NOT RAISE <class 'ValueError'>\nFAILED tests/a.py::test_it", ["test_it"]),
        ("E   Failed: Timeout (>120.0s) from pytest-timeout.\nFAILED tests/a.py::test_it", []),
        ("E   ImportError: no such name\nERROR tests/a.py::test_it", []),
        ("3 passed in 0.1s", []),
    ],
)
def test_only_a_test_that_says_what_is_wrong_has_found_a_bug(said: str, found: list[str]) -> None:
    assert findings(said, hangs=False) == found


def test_a_test_that_never_ends_has_found_a_bug_that_hangs() -> None:
    said = "E   Failed: Timeout (>120.0s) from pytest-timeout.\nFAILED tests/a.py::test_it"
    assert findings(said, hangs=True) == ["test_it"]
