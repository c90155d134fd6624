"""Each command against a real database; what it answers in JSON is what the HTTP endpoint answers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Ask, Run
from tests.servers.daemon import Daemon

URL = "http://127.0.0.1:9/"


@pytest.fixture
def daemon(database_url: str) -> Iterator[Daemon]:
    """A server that delivers nothing, on the database that the commands use."""
    with Daemon(database_url, "--no-workers") as serving:
        yield serving


def without_ages(status: Any) -> Any:
    return {name: pipe | {"oldest_age_seconds": None} for name, pipe in status.items()}


def test_the_commands_answer_what_the_endpoints_answer(daemon: Daemon, ask: Ask) -> None:
    opened = ask("sessions", "open", "s1", "--url", URL, "--title", "One", "--node", "elsewhere")
    posted = ask("inbound", "post", "s1", "hello", "--actor-name", "Ann", "--payload", '{"a": [1]}')
    assert posted == {"id": posted["id"], "seq": 1, "duplicate": False, "status": "pending"}
    for arguments, path in (
        (["sessions", "list"], "/v1/sessions"),
        (["sessions", "show", "s1"], "/v1/sessions/s1"),
        (["inbound", "list"], "/v1/inbound"),
        (["inbound", "list", "--session", "s1", "--status", "pending"], "/v1/inbound?session_id=s1&status=pending"),
        (["inbound", "show", str(posted["id"])], f"/v1/inbound/{posted['id']}"),
        (["keys", "list"], "/v1/keys"),
    ):
        assert daemon.call("GET", path) == (200, ask(*arguments)), path
    assert opened.keys() == ask("sessions", "show", "s1").keys()
    assert without_ages(daemon.call("GET", "/v1/status")[1]) == without_ages(ask("status"))


def test_a_message_is_posted_listed_hastened_and_given_up(run: Run, ask: Ask) -> None:
    assert run("sessions", "open", "s1", "--url", URL).stdout == "s1\n"
    first = run("inbound", "post", "s1", "hello", "--origin", "telegram", "--source-id", "42")
    again = run("inbound", "post", "s1", "hello", "--origin", "telegram", "--source-id", "42")
    assert first.stdout == again.stdout
    assert first.stderr == ""
    assert "before" in again.stderr
    number = first.stdout.strip()
    other = run("inbound", "post", "s1", "goodbye", "--origin", "telegram", "--source-id", "42")
    assert other.exit_code == 4
    assert ask("inbound", "retry", number)["status"] == "pending"
    assert run("inbound", "expire", number).stdout == f"message {number} is expired\n"
    assert run("inbound", "expire", number).exit_code == 4
    assert run("inbound", "retry", number).exit_code == 4
    listed = run("inbound", "list", "--session", "s1").stdout.splitlines()
    assert [line.split("\t")[0] for line in listed] == ["message", number]


def test_text_may_come_from_stdin(run: Run, ask: Ask) -> None:
    run("sessions", "open", "s1", "--url", URL)
    posted = ask("inbound", "post", "s1", "-", stdin=b"zwei\nZeilen")
    assert ask("inbound", "show", str(posted["id"]))["content"] == "zwei\nZeilen"
    assert run("inbound", "post", "s1", "-", stdin=b"\xff").exit_code == 2


def test_a_session_is_opened_for_each_kind_of_target(run: Run, ask: Ask) -> None:
    assert ask("sessions", "open", "--url", URL)["target"] == {"kind": "http", "url": URL}
    command = ask("sessions", "open", "--command", "notify --text 'two words'")
    assert command["target"] == {"kind": "command", "argv": ["notify", "--text", "two words"]}
    assert ask("sessions", "open", "--target", '{"kind": "python", "name": "x"}')["target"]["name"] == "x"
    for option, value, field in (
        ("--target", "not json", "target: "),
        ("--target", "[1]", "target: "),
        ("--target", '{"kind": "http"}', "target.url: "),
        ("--command", "'unclosed", "command: "),
        ("--command", "", "target.argv: "),
        ("--url", "ftp://x/", "target.url: "),
    ):
        refused = run("sessions", "open", option, value)
        assert (value, refused.exit_code, refused.stderr[: len(field)]) == (value, 2, field)


def test_closing_a_session_counts_what_expired(run: Run, ask: Ask) -> None:
    run("sessions", "open", "s1", "--url", URL)
    for text in ("one", "two"):
        run("inbound", "post", "s1", text)
    assert ask("sessions", "close", "s1") == {"expired": 2}
    assert run("sessions", "close", "s1").stdout == "closed; 0 messages expired\n"
    run("sessions", "open", "s2", "--url", URL)
    run("inbound", "post", "s2", "one")
    assert run("sessions", "close", "s2").stdout == "closed; 1 message expired\n"
    assert [item["session_id"] for item in ask("sessions", "list", "--status", "closed")["items"]] == ["s1", "s2"]


def test_long_lists_go_on_with_a_cursor(run: Run, ask: Ask) -> None:
    for name in ("a", "b", "c"):
        run("sessions", "open", name, "--url", URL)
    page = ask("sessions", "list", "--limit", "2")
    assert f"--cursor {page['next_cursor']}" in run("sessions", "list", "--limit", "2").stderr
    rest = ask("sessions", "list", "--limit", "2", "--cursor", page["next_cursor"])
    assert [item["session_id"] for item in page["items"] + rest["items"]] == ["a", "b", "c"]
    assert run("sessions", "list", "--cursor", "nonsense").exit_code == 2


def test_a_key_is_shown_once_and_works_until_it_is_revoked(daemon: Daemon, run: Run, ask: Ask) -> None:
    made = run("keys", "create", "--name", "ours")
    daemon.admin_key = made.stdout.strip()
    (listed,) = ask("keys", "list")["items"]
    assert (listed["name"], listed["tenant"], listed["revoked_at"]) == ("ours", None, None)
    assert daemon.call("GET", "/v1/status")[0] == 200
    assert ask("keys", "revoke", listed["key_id"]) == {}
    daemon.until("/v1/status", status=401)
    assert ask("keys", "create", "--tenant", "acme")["tenant"] == "acme"
    assert made.stdout.strip() not in json.dumps(ask("keys", "list"))
    assert ask("keys", "list")["items"][0]["revoked_at"] is not None
    assert run("keys", "create", "--tenant", "No Such").exit_code == 2


@pytest.mark.empty_database
def test_migrate_says_what_it_applied_and_then_nothing(run: Run, ask: Ask) -> None:
    assert run("migrate").stdout.startswith("applied 0001_")
    assert run("migrate").stdout == "The schema is up to date.\n"
    assert ask("migrate") == {"applied": []}


def test_prune_goes_on_until_nothing_is_left(run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    run("sessions", "open", "s1", "--url", URL)
    for text in ("one", "two", "three"):
        run("inbound", "expire", run("inbound", "post", "s1", text).stdout.strip())
    assert ask("prune") == {"pruned": 0}
    monkeypatch.setenv("PILLARBOX_INBOUND__RETENTION_DAYS", "0.0000001")
    assert ask("prune") == {"pruned": 3}
    assert run("prune").stdout == "pruned 0 messages and keys\n"
