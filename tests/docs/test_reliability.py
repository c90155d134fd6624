"""The figures of the reliability page are those of the result files, and every file says how to make it again."""

import json
from pathlib import Path

import pytest

from mutants.bugs import BUGS
from scripts.reliability import PAGE, RESULTS, WRITERS, rewritten

NAMES = ("torture-*.json", "mutants.json", "mutmut.json", "hostile.json", "simulation.json")
FILES = sorted(path for name in NAMES for path in RESULTS.glob(name))


def test_the_page_says_what_the_result_files_say() -> None:
    assert PAGE.read_text() == rewritten(PAGE.read_text()), "run `python -m scripts.reliability`"


def test_every_writer_has_its_block() -> None:
    assert [name for name in WRITERS if PAGE.read_text().count(f"<!-- generated: {name} -->") != 1] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_result_file_carries_its_command_seed_commit_and_machine(file: Path) -> None:
    result = json.loads(file.read_text())
    assert result["command"]
    assert isinstance(result["seed"], int)
    assert len(result["commit"].split()[0]) == 40
    assert {"cpu", "cores", "python", "sqlite", "postgres"} <= set(result["machine"])


ASKED = {"killed": 1000, "paused": 100, "postgres restarted": 60, "commit cut": 200, "full disk": 20}
"""How many faults of each kind the promises have to outlive in the published runs."""


def test_the_published_torture_is_of_the_size_that_was_asked_for_and_nothing_was_violated() -> None:
    runs = [json.loads(file.read_text()) for file in RESULTS.glob("torture-*.json")]
    assert sum(sum(run["acknowledged"].values()) for run in runs) >= 1_000_000
    for kind, asked in ASKED.items():
        assert sum(run["faults"].get(kind, 0) for run in runs) >= asked, kind
    assert [run["command"] for run in runs if run["violations"]] == []
    assert [run["commit"] for run in runs if run["commit"].endswith("changes")] == []


def test_the_published_matrix_is_of_the_bugs_that_are_planted_and_each_was_found() -> None:
    matrix = json.loads((RESULTS / "mutants.json").read_text())
    assert [bug["bug"] for bug in matrix["bugs"]] == [bug.name for bug in BUGS], "run `make mutants`"
    assert [bug["bug"] for bug in matrix["bugs"] if not bug["found by"]] == []
