"""`make mutants` shows that each planted bug is found; here only that each can still be planted."""

import ast
import re
from pathlib import Path

import pytest

from mutants.bug import Bug
from mutants.bugs import BUGS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_fits_the_code_as_it_is(bug: Bug) -> None:
    planted = bug.applied(ROOT)
    assert planted != (ROOT / bug.file).read_text()
    if bug.file.endswith(".py"):
        ast.parse(planted)
    for test in bug.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{test} is not there"


def test_each_bug_has_a_name_of_its_own_and_there_are_enough() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 15
