"""`pillarbox backup` under load and `pillarbox restore`: what was acknowledged is in it, and nothing is replaced unasked."""

import json
import stat
import threading
from pathlib import Path

import apsw
import click.testing
import pytest

from pillarbox.cli.main import cli
from pillarbox.storage.backup import back_up
from pillarbox.storage.migrate import migrations
from tests.crash.recorder import recording
from tests.servers.daemon import Daemon


def run(*arguments: str, stdin: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli, list(arguments), input=stdin)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a session to nowhere and two messages in it."""
    file = tmp_path / "pillarbox.db"
    url = f"sqlite:///{file}"
    for arguments in (
        ("sessions", "open", "s1", "--url", "http://127.0.0.1:9/"),
        ("inbound", "post", "s1", "one"),
        ("inbound", "post", "s1", "two"),
    ):
        done = run(*arguments, "--database", url)
        assert done.exit_code == 0, done.output
    return file


def contents(file: Path) -> list[str]:
    done = run("inbound", "list", "--json", "--database", f"sqlite:///{file}")
    return [item["content"] for item in json.loads(done.stdout)["items"]]


def test_a_backup_under_load_holds_every_message_that_was_acknowledged_before_it_began(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    stop, enough = threading.Event(), threading.Event()
    with Daemon(f"sqlite:///{tmp_path}/pillarbox.db", "--no-workers") as daemon:
        body = {"session_id": "s1", "target": {"kind": "http", "url": "http://127.0.0.1:9/"}}
        assert daemon.call("POST", "/v1/sessions", body)[0] == 201

        def produce() -> None:
            while not stop.is_set():
                message = {"session_id": "s1", "origin": "test", "content": "x" * 5000}
                status, answer = daemon.call("POST", "/v1/inbound", message)
                assert status == 202
                acknowledged.append(answer["id"])
                if len(acknowledged) >= 50:
                    enough.set()

        producers = [threading.Thread(target=produce) for _ in range(3)]
        for producer in producers:
            producer.start()
        assert enough.wait(30)
        steps: list[tuple[int, int]] = []
        for number in range(3):
            before = set(acknowledged)
            steps.clear()
            back_up(f"{tmp_path}/pillarbox.db", f"{tmp_path}/{number}.db", lambda done, of: steps.append((done, of)))
            copy = apsw.Connection(f"{tmp_path}/{number}.db")
            kept = {row[0] for row in copy.execute("SELECT id FROM inbound_queue")}
            assert copy.execute("PRAGMA integrity_check").get == "ok"
            copy.close()
            assert before <= kept
            # No hole: one state of the database, not pages of several.
            assert kept == set(range(1, max(kept) + 1))
            assert steps[-1][0] == steps[-1][1] > 0
        stop.set()
        for producer in producers:
            producer.join()


def test_a_backup_and_the_copy_of_its_key_belong_to_their_owner_alone(database: Path, tmp_path: Path) -> None:
    done = run("backup", f"{tmp_path}/copy.db", "--database", f"sqlite:///{database}", "--json")
    assert done.exit_code == 0
    made = json.loads(done.stdout)
    assert made == {
        "file": f"{tmp_path}/copy.db",
        "bytes": (tmp_path / "copy.db").stat().st_size,
        "key_file": f"{tmp_path}/copy.db.key",
    }
    assert "copy.db.key is the key" in done.stderr
    assert (tmp_path / "copy.db.key").read_bytes() == Path(f"{database}.key").read_bytes()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("copy.db", "copy.db.key")}
    assert modes == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith((".", "copy"))) == [
        "copy.db",
        "copy.db.key",
    ]


def test_a_backup_overwrites_nothing(database: Path, tmp_path: Path) -> None:
    for name in ("there.db", "other.db.key"):
        (tmp_path / name).write_text("precious")
        refused = run("backup", str(tmp_path / name.removesuffix(".key")), "--database", f"sqlite:///{database}")
        assert refused.exit_code == 2
        assert (tmp_path / name).read_text() == "precious"
    assert run("backup", f"{tmp_path}/no/folder.db", "--database", f"sqlite:///{database}").exit_code == 2
    assert run("backup", f"{tmp_path}/new.db", "--database", f"sqlite:///{tmp_path}/none.db").exit_code == 3


def test_a_restore_says_what_it_would_resend_and_changes_nothing_unless_told(database: Path, tmp_path: Path) -> None:
    url, copy = f"sqlite:///{database}", tmp_path / "copy.db"
    run("backup", str(copy), "--database", url)
    run("inbound", "post", "s1", "three", "--database", url)
    run("inbound", "expire", "1", "--database", url)
    asked = run("restore", str(copy), "--database", url, stdin="n\n")
    assert asked.exit_code == 4
    assert "inbound\tpending\t2\t" in asked.stdout
    assert "1 has ended since and will be delivered a second time." in asked.stderr
    assert "1 came in after the backup and stays only in the old database." in asked.stderr
    assert contents(database) == ["one", "two", "three"]
    done = run("restore", str(copy), "--database", url, "--yes", "--json")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    since = answer["since"]
    assert (since["ended"], since["missing"], answer["waiting"][0]["count"]) == (1, 1, 2)
    assert contents(database) == ["one", "two"]
    assert contents(Path(answer["kept"])) == ["one", "two", "three"]


def test_what_was_on_its_way_when_the_backup_was_made_is_said_to_come_a_second_time(tmp_path: Path) -> None:
    url, gate = f"sqlite:///{tmp_path}/pillarbox.db", threading.Event()
    with recording() as recorder, Daemon(url) as daemon:
        recorder.answer = lambda arrival: 200 if gate.wait(30) else 500
        daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": {"kind": "http", "url": recorder.url}})
        daemon.call("POST", "/v1/inbound", {"session_id": "s1", "origin": "test", "content": "slow"})
        recorder.expect(lambda arrivals: len(arrivals) == 1)
        assert run("backup", f"{tmp_path}/copy.db", "--database", url).exit_code == 0
        gate.set()
        daemon.until("/v1/inbound/1", lambda message: message["status"] == "delivered")
    asked = run("restore", f"{tmp_path}/copy.db", "--database", url, stdin="n\n")
    assert "1 was on its way when the backup was made and may be delivered a second time." in asked.stderr


def test_a_database_in_use_is_not_replaced(database: Path, tmp_path: Path) -> None:
    url, copy = f"sqlite:///{database}", tmp_path / "copy.db"
    run("backup", str(copy), "--database", url)
    with Daemon(url, "--no-workers") as daemon:
        refused = run("restore", str(copy), "--database", url, "--yes")
        assert (refused.exit_code, "is in use; stop" in refused.stderr) == (4, True)
        assert daemon.call("POST", "/v1/inbound", {"session_id": "s1", "origin": "t", "content": "on"})[0] == 202
        assert daemon.terminate() == 0
    assert contents(database) == ["one", "two", "on"]
    assert run("restore", str(copy), "--database", url, "--yes").exit_code == 0
    assert contents(database) == ["one", "two"]


def test_a_damaged_database_can_be_restored_over_and_a_damaged_backup_cannot(database: Path, tmp_path: Path) -> None:
    url, copy = f"sqlite:///{database}", tmp_path / "copy.db"
    run("backup", str(copy), "--database", url)
    database.write_bytes(b"\xff" * database.stat().st_size)
    bad = tmp_path / "bad.db"
    bad.write_bytes(copy.read_bytes()[: 4096 * 20])
    refused = run("restore", str(bad), "--database", url, "--yes")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert run("restore", str(copy), "--database", url, "--yes").exit_code == 0
    assert contents(database) == ["one", "two"]


def test_a_file_copied_without_its_log_and_one_from_the_future_are_no_backups(database: Path, tmp_path: Path) -> None:
    url, copy = f"sqlite:///{database}", tmp_path / "copy.db"
    run("backup", str(copy), "--database", url)
    Path(f"{copy}-wal").write_bytes(b"frames")
    refused = run("restore", str(copy), "--database", url, "--yes")
    assert (refused.exit_code, "log beside it" in refused.stderr) == (1, True)
    Path(f"{copy}-wal").unlink()
    connection = apsw.Connection(str(copy))
    connection.execute("INSERT INTO schema_migration (version, name) VALUES (9999, 'later')")
    connection.close()
    refused = run("restore", str(copy), "--database", url, "--yes")
    assert (refused.exit_code, f"knows {migrations('sqlite')[-1].version}" in refused.stderr) == (1, True)
    assert run("restore", str(database), "--database", url, "--yes").exit_code == 2
    assert contents(database) == ["one", "two"]
