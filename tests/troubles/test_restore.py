"""What people said after a backup outlives its restore, and what was done after it is told before it is undone."""

import asyncio
import json
import os
from pathlib import Path

import apsw
import click.testing
import pytest

from pillarbox.box import Pillarbox
from pillarbox.cli.main import cli
from pillarbox.storage.backup import back_up
from tests.troubles import aftermath


def run(*arguments: str, stdin: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli, list(arguments), input=stdin)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "pillarbox.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def change(file: Path, statements: str) -> None:
    connection = apsw.Connection(str(file))
    connection.pragma("journal_mode", "delete")
    connection.execute(statements)
    connection.close()


def key_in(file: Path, text: str | None = None) -> str:
    if text is not None:
        file.write_text(text)
    return file.read_text(errors="surrogateescape")


def spoil(file: Path) -> None:
    file.write_bytes(b"\xff" * file.stat().st_size)


def damage_table(file: Path, table: str) -> None:
    """Spoil the first page of one table; the others stay readable."""
    connection = apsw.Connection(str(file))
    root, size = connection.execute(
        "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = ?", (table,)
    ).get
    connection.close()
    with file.open("r+b") as damaged:
        damaged.seek((root - 1) * size)
        damaged.write(b"\xff" * size)


async def fill(database: Path, copy: Path) -> dict[str, str]:
    return await aftermath.fill(f"sqlite:///{database}", lambda: back_up(str(database), str(copy)))


async def test_an_opt_out_made_after_the_backup_is_kept_and_the_waiting_message_is_not_sent(
    database: Path, copy: Path
) -> None:
    sent = await fill(database, copy)
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes")
    assert done.exit_code == 0, done.output
    assert "2 opt-outs came in after the backup and are taken over." in done.stderr
    told = "taken over from the old one: 2 opt-outs, 1 forgotten messages, 1 revoked keys, 1 tenants' revoked links"
    assert told in done.stdout
    await aftermath.check_restored(f"sqlite:///{database}", sent)


async def test_what_becomes_unknown_is_told_in_a_sentence_each_and_as_json(database: Path, copy: Path) -> None:
    await fill(database, copy)
    asked = run("restore", str(copy), "--database", f"sqlite:///{database}", "--preview")
    assert asked.exit_code == 0
    for sentence in (
        "2 opt-outs came in after the backup and are taken over.",
        "1 message was forgotten since, as will be done again.",
        "1 API key was revoked since, as will be done again.",
        "1 tenant had embed links revoked since, as will be done again.",
        "2 inbox keys were processed since and will be unknown: what comes again under such a key takes effect a second",
        "1 idempotency key came in since and will be unknown: who repeats a request with such a key sends a second",
    ):
        assert sentence in asked.stderr
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes", "--json")
    answer = json.loads(done.stdout)
    assert (answer["since"], answer["taken_over"]) == (aftermath.SINCE, aftermath.TAKEN_OVER)


async def test_opt_outs_under_another_key_are_said_not_to_be_taken_over(database: Path, copy: Path) -> None:
    await fill(database, copy)
    change(copy, "UPDATE sealing_key SET key_id = 'another'")
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["taken_over"]["opt_outs"], answer["since"]["opt_outs"], answer["since"]["other_key"]) == (0, 2, True)


async def test_opt_outs_are_taken_over_into_a_backup_that_is_older_than_their_table(database: Path, copy: Path) -> None:
    await fill(database, copy)
    change(copy, "DROP TABLE message_opt_out; DROP TABLE sealing_key; DROP TABLE inbox")
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes", "--json")
    answer = json.loads(done.stdout)
    assert (answer["taken_over"]["opt_outs"], answer["since"]["opt_outs"], answer["since"]["inbox_keys"]) == (3, 3, 3)


async def test_a_database_that_cannot_be_read_is_said_to_have_taken_its_opt_outs_with_it(
    database: Path, copy: Path
) -> None:
    await fill(database, copy)
    spoil(database)
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes")
    assert done.exit_code == 0, done.output
    assert "The database there cannot be read whole" in done.stderr
    assert "The old database could not be read to its end: opt-outs" in done.stderr
    async with Pillarbox.open(f"sqlite:///{database}") as box:
        assert [each.contact for each in await box.outbound.opt_outs("acme")] == ["old@example.com"]


@pytest.mark.parametrize("left", [0, 600])
async def test_a_database_that_lost_its_content_is_not_said_to_have_had_nothing_since(
    database: Path, copy: Path, left: int
) -> None:
    await fill(database, copy)
    change(database, "")
    os.truncate(database, left)
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["since"], answer["unreadable"], answer["taken_over"]["complete"]) == (None, True, False)


async def test_opt_outs_of_a_damaged_database_under_another_key_are_not_said_to_be_kept(
    database: Path, copy: Path
) -> None:
    await fill(database, copy)
    change(database, "UPDATE sealing_key SET key_id = 'another'")
    damage_table(database, "inbox")
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes")
    assert done.exit_code == 0, done.output
    assert "The database there cannot be read whole" in done.stderr
    assert "Opt-outs since the backup are not taken over" in done.stderr
    assert "taken over from the old one: 1 forgotten messages" in done.stdout


async def test_whoever_opted_out_anew_and_was_forgotten_then_is_forgotten_in_the_backup_too(
    database: Path, copy: Path
) -> None:
    url = f"sqlite:///{database}"
    await fill(database, copy)
    async with Pillarbox.open(url) as box:
        (old,) = [each for each in await box.outbound.opt_outs("acme") if each.contact == "old@example.com"]
        await box.outbound.remove_opt_out("acme", old.id)
        await box.outbound.opt_out("acme", "old@example.com", "email")
        await box.outbound.forget("acme", "old@example.com")
    assert run("restore", str(copy), "--database", url, "--yes").exit_code == 0
    async with Pillarbox.open(url) as box:
        assert "old@example.com" not in {each.contact for each in await box.outbound.opt_outs("acme")}


async def test_a_key_without_its_database_is_kept_when_the_backup_brings_another(database: Path, copy: Path) -> None:
    await fill(database, copy)
    key = Path(f"{database}.key")
    others, backups = key_in(key, "an older key"), key_in(Path(f"{copy}.key"))
    os.unlink(database)
    done = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["kept"], key_in(Path(answer["kept_key"])), key_in(key)) == (None, others, backups)
    os.unlink(database)
    again = run("restore", str(copy), "--database", f"sqlite:///{database}", "--yes", "--json")
    assert json.loads(again.stdout)["kept_key"] is None


def test_a_backup_without_its_key_is_not_put_in_place(database: Path, copy: Path) -> None:
    asyncio.run(fill(database, copy))
    key = Path(f"{copy}.key")
    kept = key.read_bytes()
    key.unlink()
    database.unlink()
    Path(f"{database}.key").unlink()
    where = ("--database", f"sqlite:///{database}", "restore", str(copy))
    shown = run(*where, "--preview")
    assert (shown.exit_code, f"{copy}.key is not beside the backup" in shown.output) == (0, True)
    refused = run(*where, "--yes")
    assert (refused.exit_code, database.exists()) == (4, False)
    assert "put it there first" in refused.output
    key.write_bytes(kept)
    assert run(*where, "--yes").exit_code == 0
