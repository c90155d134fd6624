"""A folder that was kept can be checked again without playing anything."""

from contextlib import closing
from pathlib import Path

import pytest

from pillarbox.box import Pillarbox
from torture.__main__ import main
from torture.again import note
from torture.caller import ORDERS, connect
from torture.journal import Journal
from torture.plan import Plan


@pytest.mark.parametrize("kept", [".", "disk-kept"])
async def test_a_kept_folder_is_checked_again_by_the_rules(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / kept).mkdir(exist_ok=True)
    url = f"sqlite:///{tmp_path / kept / 'pillarbox.db'}"
    async with Pillarbox.open(url):
        pass
    with closing(connect(url)) as connection:
        connection.execute(ORDERS)
    note(Plan(seed=7), tmp_path)
    _write(tmp_path / "moments.jsonl", wrong={}, at_rest=True)
    assert main(["--check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "seed 7: 0 acknowledged, 0 faults, 0 repetitions, 0 violations\n"
    _write(tmp_path / "ledger.jsonl", pipe="hooks", kind="received", session="a0", n=0)
    assert main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("seed 7: 1 acknowledged, 0 faults, 0 repetitions, 1 violations\n  BROKEN hooks, receivers: ")
    assert f"everything is in {tmp_path}" in said
    (tmp_path / "n1.log").write_text("Traceback (most recent call last):\n")
    (tmp_path / "caller0.log").write_text("Traceback (most recent call last):\n")
    assert main(["--check", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "BROKEN bugs: n1 said: Traceback" in said
    assert "caller0" not in said, "that one is a program of the torture's own"


def test_a_folder_without_evidence_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path)]) == 2
    note(Plan(seed=7), tmp_path)
    assert main(["--check", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("no folder that was kept") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def _write(path: Path, **entry: object) -> None:
    journal = Journal(path)
    journal.add(**entry)
    journal.close()
