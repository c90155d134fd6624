"""The figures of the simulation say which commit they are of, and which seeds, so that they can be had again."""

import json
import subprocess
from pathlib import Path

import pytest

from scripts import reliability
from tests.simulation.__main__ import main


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mutants.tree.ROOT", tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_figures_are_not_made_of_code_that_is_not_committed(
    committed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (committed / "src").mkdir()
    (committed / "src" / "ours.py").write_text("ONE = 1\n")
    with pytest.raises(SystemExit) as ended:
        main(["--result", str(committed / "simulation.json")])
    assert ended.value.code == 2
    assert "what would be tried is not what is committed" in capsys.readouterr().err
    assert not (committed / "simulation.json").exists()


def test_what_was_played_is_written_and_shown(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = committed / "simulation.json"
    assert main(["--lane", "inbox", "--lane", "engine", "--first", "3", "--seeds", "2", "--result", str(file)]) == 0
    result = json.loads(file.read_text())
    assert result["command"] == "python -m tests.simulation --lane inbox --lane engine --first 3 --seeds 2"
    inbox = result["lanes"]["inbox"]
    assert (inbox["first seed"], inbox["last seed"], inbox["failed"]) == (3, 4, [])
    assert inbox["figures"]["deliveries done"] >= inbox["figures"]["messages"] > 0
    monkeypatch.setattr(reliability, "RESULTS", committed)
    shown = reliability.write_simulation().splitlines()
    assert shown[0] == "|  | `inbox` | `engine` | in all |"
    assert "| stories, each from a seed of its own | 2 | 2 | 4 |" in shown
    assert "| **stories in which a rule was broken** | 0 | 0 | 0 |" in shown


def test_without_a_result_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reliability, "RESULTS", tmp_path)
    assert reliability.write_simulation() == "Not measured yet.\n"


def test_a_number_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["--seeds", "0"], ["--jobs", "0"], ["--first", "-1"]):
        with pytest.raises(SystemExit):
            main(wrong)
        assert "at least" in capsys.readouterr().err
