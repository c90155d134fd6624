"""The processes of the table, on our own rows: the peers are only there after `make bench`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.beside import COLUMNS
from bench.idle import BARE
from bench.peers.stamps import PIPE, handle, looking
from bench.processes import Failed, Reports
from bench.rows import ROWS, Row
from bench.settled import settled
from bench.stores import Stores
from bench.table import Size, latency, measure, measure_all, of_turns, of_waits
from pillarbox import Pillarbox
from pillarbox.hooks.model import HookEvent


@pytest.mark.slow
def test_a_row_has_every_column_and_names_what_it_promises(tmp_path: Path) -> None:
    *_, (ours,) = measure_all(tmp_path, Size(0.2, 300, turns=2), only="Pillarbox outbound on sqlite")
    assert "error" not in ours
    assert set(COLUMNS) - set(ours) == {"cost_server"}, "SQLite has no server"
    assert all(ours[column] > 0 for column in set(COLUMNS) & set(ours) - {"at_once"})
    assert len(ours["drains"]) == 2
    assert len(ours["waits"]) == 2
    assert ours["at_once"] == "500"
    assert ours["p50"] > 0
    assert ours["call"] > 0
    assert ours["promise"].startswith("at least once")


class OneStore(Stores):
    """The database of a test, whichever is asked for."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextmanager
    def fresh(self, kind: str) -> Iterator[str]:
        assert self._url.startswith(kind)
        yield self._url


@pytest.mark.slow
def test_two_bare_processes_pass_a_job_on(tmp_path: Path, database_url: str) -> None:
    store = "sqlite" if database_url.startswith("sqlite") else "postgres"
    reports = Reports(tmp_path)
    try:
        found = latency(
            Row(BARE, store, f"bench.bare.{store}", "none"), OneStore(database_url), reports, Size(0.2, 300)
        )
    finally:
        reports.close()
    assert found["pings"] > 0
    assert found["call"] > 0
    assert found["p50"] > 0


def test_the_database_itself_is_measured_in_the_same_run(tmp_path: Path) -> None:
    *_, (raw,) = measure_all(tmp_path, Size(0.2, 300), only="raw on sqlite")
    assert raw["name"] == "the database itself"
    assert all(raw[column] > 0 for column in ("single", "together", "bulk", "drain1"))


def test_the_turn_in_the_middle_counts_figure_by_figure() -> None:
    turns = [
        {"rate": rate, "cost": cost, "cost_worker": cost / 2}
        for rate, cost in ((900.0, 70.0), (100.0, 80.0), (500.0, 60.0))
    ]
    assert of_turns(turns) == {"drain1": 500.0, "cost": 70.0, "cost_worker": 35.0, "drains": turns}


def test_the_idle_latency_in_the_middle_counts_figure_by_figure() -> None:
    turns = [{"p50": p50, "call": call} for p50, call in ((0.9, 0.2), (0.5, 0.4), (0.7, 0.3))]
    assert of_waits(turns) == {"p50": 0.7, "call": 0.3, "waits": turns}


def test_a_peer_that_is_not_installed_is_a_row_that_says_so() -> None:
    absent = Row("Absent", "redis", "bench.peers.celery", "none", "no-such-package")
    found = measure(absent, None, None, Size(0.1, 10))  # type: ignore[arg-type]
    assert found["error"].startswith("not installed for Python 3.")


def test_every_peer_of_the_table_has_its_file() -> None:
    assert {row.module for row in ROWS if not row.file.exists()} == set()


def test_every_row_says_how_many_jobs_its_worker_takes_at_once() -> None:
    found = {row.name: row.at_once() for row in ROWS}
    assert found["PgQueuer"] == found["Pillarbox outbound"] == "500"
    assert found["Celery"] == "1 of 64"
    assert found["Pillarbox hooks"] == "500 by 32"
    assert all(found.values())


@pytest.mark.slow
async def test_what_has_only_begun_is_not_counted_as_done(tmp_path: Path, database_url: str) -> None:
    async with Pillarbox.open(database_url) as box:
        await box.sessions.open(session_id="s1", target={"kind": "none"})
        for n in range(3):
            await box.hooks.post("s1", "agent_stop", {"n": n})
        assert settled(database_url, "hooks", 3, waiting=0.05)[0] == 0

        @box.hooks.on()
        async def nothing(event: HookEvent) -> None: ...

        assert await box.hooks.drain.step() == 3
        assert settled(database_url, "hooks", 3, waiting=10)[0] == 3


def test_who_only_looks_for_jobs_is_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports(tmp_path)
    try:
        monkeypatch.setenv(PIPE, str(reports.path))
        looking()
        handle("1.5 said")
        assert [sent for sent, _ in reports.wait(5)] == [1.5]
        assert reports.looking(5) > 0
        reports.forget()
        with pytest.raises(Failed):
            reports.looking(0)
    finally:
        reports.close()
