"""The figures of hostile requests say which commit they are of, so they are made of nothing else."""

import subprocess
from pathlib import Path

import pytest

from mutants.tree import is_changed
from tests.hostile.__main__ import main


def test_figures_are_not_made_of_code_that_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mutants.tree.ROOT", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "ours.py").write_text("ONE = 1\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "All"]):
        subprocess.run([*git, *arguments], check=True)
    assert not is_changed()
    (tmp_path / "src" / "ours.py").write_text("ONE = 2\n")
    with pytest.raises(SystemExit) as ended:
        main(["--result", str(tmp_path / "hostile.json")])
    assert ended.value.code == 2
    assert "what would be tried is not what is committed" in capsys.readouterr().err
    assert not (tmp_path / "hostile.json").exists()
