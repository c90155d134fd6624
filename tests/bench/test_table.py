"""The processes of the table, on our own rows: the peers are only there after `make bench`."""

from pathlib import Path

import pytest

from bench.page import COLUMNS
from bench.rows import ROWS, Row
from bench.table import Size, measure, measure_all


@pytest.mark.slow
def test_a_row_has_every_column_and_names_what_it_promises(tmp_path: Path) -> None:
    (ours,) = measure_all(tmp_path, Size(0.2, 300), only="Pillarbox outbound on sqlite")
    assert "error" not in ours
    assert all(ours[column] > 0 for column in COLUMNS)
    assert ours["promise"].startswith("at least once")


def test_the_database_itself_is_measured_in_the_same_run(tmp_path: Path) -> None:
    (raw,) = measure_all(tmp_path, Size(0.2, 300), only="raw on sqlite")
    assert raw["name"] == "the database itself"
    assert all(raw[column] > 0 for column in ("single", "together", "bulk", "drain1"))


def test_a_peer_that_is_not_installed_is_a_row_that_says_so() -> None:
    absent = Row("Absent", "redis", "bench.peers.absent", "none", "no-such-package")
    found = measure(absent, None, None, Size(0.1, 10))  # type: ignore[arg-type]
    assert found["error"].startswith("not installed for Python 3.")


def test_every_peer_of_the_table_has_its_file() -> None:
    folder = Path(__file__).parents[2] / "bench"
    assert {row.module for row in ROWS if not (folder.parent / f"{row.module.replace('.', '/')}.py").exists()} == set()
