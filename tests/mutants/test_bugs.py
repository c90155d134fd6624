"""`make mutants` shows that each planted bug is found; here only that each can still be planted, and what counts as found."""

import ast
import re
from pathlib import Path

import pytest

from mutants.__main__ import run_tests, try_bug
from mutants.bug import Bug
from mutants.bugs import BUGS
from mutants.findings import failing, findings

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


TRIED = {
    "tests/test_it.py": """
import pytest
from ours import count
from tests.stand import expect


@pytest.fixture
def stand():
    assert count() == 1


def test_by_itself():
    assert count() == 1

def test_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert count() == 1

def test_through_a_file_of_the_tests():
    expect(count() == 1)

def test_that_nothing_is_raised():
    with pytest.raises(ValueError):
        count()

def test_by_taking_the_only_one():
    (_,) = range(count())

def test_whose_fixture_fails(stand):
    pass

def test_that_meets_an_assertion_of_the_code():
    count(sure=True)

def test_that_breaks_down():
    count().missing

def test_that_takes_too_long():
    pytest.fail("Timeout (>120.0s) from pytest-timeout.")

def test_that_passes():
    pass
""",
    "tests/__init__.py": "",
    "tests/stand.py": "def expect(holds):\n    assert holds\n",
    "ours.py": "def count(sure=False):\n    assert not sure\n    return 2\n",
}


def test_only_an_assertion_of_a_test_has_found_a_bug(tmp_path: Path) -> None:
    for name, text in TRIED.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    passed, said = run_tests(["tests"], tmp_path, "-c", "/dev/null", "--rootdir", str(tmp_path), patience=60)
    assert not passed
    assert findings(said) == [
        "test_by_itself",
        "test_from_another_folder",
        "test_that_nothing_is_raised",
        "test_through_a_file_of_the_tests",
    ]
    assert len(failing(said)) == 9


def test_who_passes_has_found_nothing() -> None:
    assert findings("3 passed in 0.1s") == []


@pytest.mark.long
@pytest.mark.parametrize(("broken", "found"), [(False, ["test_it"]), (True, [])])
def test_a_test_that_fails_without_the_bug_when_it_is_alone_has_found_nothing(
    tmp_path: Path, broken: bool, found: list[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "ours.py").write_text("ONE = 1\n")
    wanted = 2 if broken else 1
    (tmp_path / "tests/test_a.py").write_text(f"from ours import ONE\n\ndef test_it():\n    assert ONE == {wanted}\n")
    bug = Bug("one is three", "ours.py", "ONE = 1", "ONE = 3", ("tests/test_a.py::test_it",))
    assert try_bug(bug, tmp_path)["found by"] == found
    assert (tmp_path / "ours.py").read_text() == "ONE = 1\n"
