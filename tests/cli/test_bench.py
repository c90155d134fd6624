import json
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from click.testing import CliRunner

from pillarbox.cli.main import cli
from tests.cli.conftest import Ask, Run

QUEUE = {"enqueue_one_caller", "enqueue_100_callers", "drain", "latency_p50_ms", "latency_p99_ms"}


def bench(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["bench", *arguments])
    return done.exit_code, done.stderr


def names_in(url: str) -> set[str]:
    """What a database has beside the rows: schemas of PostgreSQL, neighbours of an SQLite file."""
    if url.startswith("sqlite"):
        return {file.name for file in Path(url.removeprefix("sqlite:///")).parent.iterdir()}
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute("SELECT nspname FROM pg_namespace")}


def test_it_measures_every_pipe_and_leaves_the_database_as_it_was(run: Run, ask: Ask, database_url: str) -> None:
    ask("sessions", "open", "s0", "--target", '{"kind": "none"}')
    ask("inbound", "post", "s0", "mine")
    names, status = names_in(database_url), ask("status")

    found = ask("bench", "--seconds", "1")

    assert found["database"] == ("sqlite" if database_url.startswith("sqlite") else "postgresql")
    pipes = found["pipes"]
    assert {name: set(figures) for name, figures in pipes.items() if name != "inbox"} == dict.fromkeys(
        ("inbound", "hooks", "outbound"), QUEUE
    )
    assert all(figure > 0 for figures in pipes.values() for figure in figures.values())
    assert all(
        figures["latency_p50_ms"] <= figures["latency_p99_ms"] for figures in pipes.values() if "drain" in figures
    )
    after = ask("status")
    assert (after["inbound"]["pending"], after["outbound"]) == (status["inbound"]["pending"], status["outbound"])
    assert names_in(database_url) == names


def test_it_needs_no_database_to_be_there_and_makes_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["bench", "--seconds", "1", "--database", f"sqlite:///{tmp_path / 'not-yet.db'}"])
    header, *rows = done.stdout.splitlines()
    assert (done.exit_code, header.split("\t")[0]) == (0, "sqlite")
    assert [row.split("\t")[0] for row in rows] == ["inbound", "hooks", "outbound", "inbox"]
    assert list(tmp_path.iterdir()) == []


def test_settings_that_lead_outside_are_not_used(tmp_path: Path) -> None:
    toml = tmp_path / "pillarbox.toml"
    toml.write_text('[hooks]\nforward_url = "http://127.0.0.1:1/never"\nbackoff_seconds = [60]\n')
    done = CliRunner().invoke(cli, ["bench", "--seconds", "1", "--json", "--config", str(toml)])
    assert (done.exit_code, json.loads(done.stdout)["pipes"]["hooks"]["drain"] > 0) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--database", "sqlite:///:memory:"), "name a file"),
        (("--database", "mysql://somewhere/db"), "must be sqlite:///file.db"),
        (("--database", "sqlite:////no/such/folder/box.db"), "check the path"),
        (("--database", "postgresql://127.0.0.1:1/db?pooler=transaction"), "the address of the server itself"),
        (("--database", "postgresql://127.0.0.1:1/db"), "cannot be reached at 127.0.0.1:1"),
        (("--seconds", "0.5"), "--seconds"),
        (("--seconds", "100000"), "--seconds"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    code, stderr = bench(*arguments)
    assert code in (1, 2)
    assert said in stderr
    assert stderr.count("\n") == 1


def test_a_user_who_may_not_create_a_schema_is_told_what_to_do(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS bench_guest")
        connection.execute("CREATE ROLE bench_guest LOGIN")
    parts = urlsplit(postgres_url)
    guest = parts._replace(netloc=f"bench_guest@{parts.netloc.rpartition('@')[2]}").geturl()
    code, stderr = bench("--database", guest)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE bench_guest")
    assert (code, "grant it CREATE on the database" in stderr) == (4, True)
