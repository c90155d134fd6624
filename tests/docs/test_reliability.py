"""The figures of the reliability page are those of the result files, and every file says how to make it again."""

import json
from pathlib import Path

import pytest

from scripts.reliability import PAGE, RESULTS, WRITERS, rewritten

NAMES = ("torture-*.json", "mutants.json", "mutmut.json", "hostile.json", "simulation.json")
FILES = sorted(path for name in NAMES for path in RESULTS.glob(name))


def test_the_page_says_what_the_result_files_say() -> None:
    assert PAGE.read_text() == rewritten(PAGE.read_text()), "run `python scripts/reliability.py`"


def test_every_writer_has_its_block() -> None:
    assert [name for name in WRITERS if PAGE.read_text().count(f"<!-- generated: {name} -->") != 1] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_result_file_carries_its_command_seed_commit_and_machine(file: Path) -> None:
    result = json.loads(file.read_text())
    assert result["command"]
    assert isinstance(result["seed"], int)
    assert len(result["commit"].split()[0]) == 40
    assert {"cpu", "cores", "python", "sqlite", "postgres"} <= set(result["machine"])
