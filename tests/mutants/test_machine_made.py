"""What became of machine-made changes is counted as it was: an end that nobody waited for is none that was noticed."""

import json
from pathlib import Path
from typing import Any

import pytest

from mutants.machine_made import FILES, score
from scripts import reliability


def test_a_change_whose_tests_ran_out_of_time_is_not_counted_as_noticed(tmp_path: Path) -> None:
    codes = {"a": 1, "b": 3, "c": 24, "d": 36, "e": 152, "f": 255, "g": -24, "h": 0, "i": 33, "j": None}
    meta = tmp_path / "mutants/src/pillarbox/text.py.meta"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"exit_code_by_key": codes}))
    counted = {"killed": 2, "timed out": 5, "survived": 1, "untested": 2}
    assert score(tmp_path, "text.py") == {"file": "text.py", **counted, "not noticed": ["h"]}


def page_of(files: list[dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are written of a result with these files."""
    machine = dict.fromkeys(("python", "sqlite", "postgres", "cores", "cpu"), "x")
    result = {"command": "make mutmut", "commit": "0" * 40, "machine": machine, "files": files}
    (folder / "mutmut.json").write_text(json.dumps(result))
    monkeypatch.setattr(reliability, "RESULTS", folder)
    return reliability.write_mutmut().splitlines()


@pytest.mark.parametrize(
    ("told", "row"),
    [
        ({"timed out": 5}, "| `text.py` | 2 | 5 | 1 | 2 | 20 % |"),
        ({}, "| `text.py` | 2 | not told apart | 1 | 2 | 40 % |"),
    ],
)
def test_the_page_shows_who_ran_out_of_time(
    told: dict[str, int], row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file: dict[str, Any] = {"file": "text.py", "killed": 2, "survived": 1, "untested": 2} | told
    assert row in page_of([file], tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("tried", "said"),
    [(FILES, []), (FILES[1:-1], [f"`{FILES[0]}`, `{FILES[-1]}`"])],
)
def test_the_page_names_the_files_that_the_result_is_too_old_to_have(
    tried: tuple[str, ...], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [{"file": file, "killed": 1, "survived": 0, "untested": 0} for file in tried]
    beginning = "- on the list of `make mutmut` today, and not yet on that of this run: "
    lines = page_of(files, tmp_path, monkeypatch)
    assert [line.removeprefix(beginning) for line in lines if line.startswith(beginning)] == said
