"""Sending, messages, opt-outs and tenants from the command line; in JSON they answer what the endpoints answer."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ask, Run
from tests.servers.daemon import Daemon, environment, key_for

SANDBOX = {"providers": {name: {"provider": "sandbox"} for name in ("email", "sms", "push", "webhook")}}
EMAIL = ("send", "email", "--tenant", "acme", "--to", "Ann@Example.com", "--text", "Hello.")


@pytest.fixture
def daemon(database_url: str) -> Iterator[Daemon]:
    """A server that sends nothing, on the database that the commands use."""
    with Daemon(database_url, "--no-workers") as serving:
        yield serving


@pytest.fixture
def acme(run: Run) -> str:
    done = run("tenants", "set", "acme", "-", stdin=json.dumps(SANDBOX))
    assert (done.stdout, done.stderr) == ("acme\n", "")
    return "acme"


def shown(ask: Ask, message_id: str) -> Any:
    return ask("messages", "show", message_id)


def test_the_commands_answer_what_the_endpoints_answer(daemon: Daemon, ask: Ask, acme: str) -> None:
    queued = ask(*EMAIL, "--tag", "t")
    assert sorted(queued) == ["message_id", "status"]
    opted = ask("opt-outs", "add", "--tenant", "acme", "--channel", "sms", "+1 500 555 0006", "--reason", "asked")
    message = f"messages/{queued['message_id']}"
    for arguments, path in (
        (["tenants", "list"], ""),
        (["tenants", "show", "acme"], "/acme"),
        (["messages", "list", "--tenant", "acme"], "/acme/messages"),
        (["messages", "list"], "/acme/messages"),
        (["messages", "list", "--status", "pending", "--tag", "t"], "/acme/messages?status=pending&tag=t"),
        (["messages", "list", "--tenant", "acme", "--to", "ANN@example.com"], "/acme/messages?to=ann@example.com"),
        (["messages", "show", queued["message_id"]], f"/acme/{message}"),
        (["opt-outs", "list", "--tenant", "acme"], "/acme/opt-outs"),
    ):
        assert daemon.call("GET", f"/v1/tenants{path}") == (200, ask(*arguments)), arguments
    assert daemon.call("GET", "/v1/tenants/acme/opt-outs")[1]["items"] == [opted]
    canceled = ask("messages", "cancel", queued["message_id"])
    assert daemon.call("GET", f"/v1/tenants/acme/{message}") == (200, canceled)
    retried = ask("messages", "retry", queued["message_id"], "--tenant", "acme")
    assert daemon.call("GET", f"/v1/tenants/acme/{message}") == (200, retried)
    assert ask("opt-outs", "remove", "--tenant", "acme", opted["id"]) == {}
    assert ask("forget", "--tenant", "acme", "ann@example.com") == {"forgotten": 1}
    assert ask("tenants", "delete", "acme") == {}
    assert daemon.call("GET", "/v1/tenants/acme")[0] == 404


def test_a_process_of_its_own_prints_the_id_alone_and_a_server_sends_it(database_url: str) -> None:
    settings = {"outbound.providers": SANDBOX["providers"]}

    def pillarbox(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pillarbox", "--database", database_url, *arguments]
        variables = environment(settings, key_for(database_url))
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)

    with Daemon(database_url, settings=settings) as serving:
        assert pillarbox("tenants", "set", "acme").stdout == "acme\n"
        sent = pillarbox(*EMAIL)
        assert (sent.returncode, sent.stderr, sent.stdout.count("\n")) == (0, "", 1)
        path = f"/v1/tenants/acme/messages/{sent.stdout.strip()}"
        serving.until(path, lambda message: message["status"] == "sent")
        assert (
            f"\n{sent.stdout.strip()}\tacme\temail\tann@example.com\tsent\t1\t" in pillarbox("messages", "list").stdout
        )


def test_everything_an_email_may_have_is_taken(run: Run, ask: Ask, acme: str, tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_bytes(b"\x00\xff")
    options = {
        **{"--subject": "Hi", "--html": "<b>x</b>", "--from": "Acme <a@acme.example>", "--reply-to": "r@acme.example"},
        **{"--cc": "c@example.com", "--bcc": "b@example.com", "--header": "X-A=b=c", "--attach": str(file)},
        **{"--priority": "7", "--at": "2040-01-01T00:00:00+02:00", "--expires": "2041-01-01T00:00:00Z"},
        **{"--max-attempts": "3", "--category": "transactional", "--tag": "t"},
    }
    sent = run(*EMAIL, *(word for option in options.items() for word in option))
    assert (sent.exit_code, sent.stderr) == (0, "")
    message = shown(ask, sent.stdout.strip())
    assert (message["subject"], message["body_html"], message["priority"]) == ("Hi", "<b>x</b>", 7)
    assert (message["next_attempt_at"], message["max_attempts"]) == ("2039-12-31T22:00:00Z", 3)
    assert message["tags"] == ["t"]


def test_text_html_and_json_may_come_from_stdin(run: Run, ask: Ask, acme: str) -> None:
    text = run(*EMAIL[:-1], "-", stdin="two\nlines")
    assert shown(ask, text.stdout.strip())["body_text"] == "two\nlines"
    html = run(*EMAIL, "--html", "-", stdin="<p>\u00e9</p>")
    assert shown(ask, html.stdout.strip())["body_html"] == "<p>\u00e9</p>"
    webhook = ("send", "webhook", "--tenant", "acme", "--to", "https://example.com/x", "--method", "put")
    body = run(*webhook, "--body", "-", "--header", "X-Token=secret", stdin='{"a": [1]}')
    assert shown(ask, body.stdout.strip())["body_text"] == '{"a":[1]}'
    assert shown(ask, run(*webhook, "--body", "7").stdout.strip())["body_text"] == "7"
    assert run(*webhook, "--body", "-", stdin="not json").exit_code == 2
    assert run(*EMAIL[:-1], "-", "--html", "-", stdin="x").exit_code == 2
    assert run(*EMAIL[:-1], "-", stdin=b"\xff").exit_code == 2


def test_what_cannot_be_sent_exits_2_and_names_the_field(run: Run, ask: Ask, acme: str, tmp_path: Path) -> None:
    for more, field in (
        (["--to", "nobody"], "to: "),
        (["--subject", "a\nb"], "subject: "),
        (["--header", "nothing"], "headers: "),
        (["--header", "Bcc=x@example.com"], "headers.Bcc: "),
        (["--attach", str(tmp_path / "missing")], "attachments.0: "),
        (["--at", "tomorrow"], "send_at: "),
        (["--body", "{}"], "body: "),
        (["--key", "k" * 256], "idempotency_key: "),
    ):
        refused = run(*EMAIL, *more)
        assert (more, refused.exit_code, refused.stdout) == (more, 2, "")
        assert refused.stderr.startswith(field), refused.stderr
    for arguments in (["send", "fax", "--tenant", "acme", "--to", "x"], [*EMAIL, "--priority", "1001"], ["send"]):
        assert run(*arguments).exit_code == 2
    assert run(*EMAIL, "--tenant", "none").exit_code == 3
    assert ask("messages", "list")["items"] == []


def test_the_same_key_queues_a_message_once(run: Run, ask: Ask, acme: str) -> None:
    first, again = run(*EMAIL, "--key", "order-1"), run(*EMAIL, "--key", "order-1")
    assert (first.exit_code, first.stdout) == (0, again.stdout)
    assert run(*EMAIL, "--key", "order-1", "--subject", "Other").exit_code == 2
    assert len(ask("messages", "list")["items"]) == 1


def test_who_opted_out_is_refused_with_4_until_the_opt_out_is_removed(run: Run, ask: Ask, acme: str) -> None:
    added = run("opt-outs", "add", "--tenant", "acme", "ann@example.com")
    again = run("opt-outs", "add", "--tenant", "acme", " ANN@example.com")
    assert added.stdout == again.stdout
    refused = run(*EMAIL)
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert "opted out" in refused.stderr
    assert "ann@example.com\tall\t" in run("opt-outs", "list", "--tenant", "acme").stdout
    assert run("opt-outs", "remove", "--tenant", "acme", added.stdout.strip()).stdout == "removed\n"
    assert run("opt-outs", "remove", "--tenant", "acme", added.stdout.strip()).exit_code == 3
    assert run(*EMAIL).exit_code == 0
    assert run("forget", "--tenant", "acme", "ann@example.com").stdout == "forgotten in 2 messages\n"
    assert [item["to_address"] for item in ask("messages", "list")["items"]] == [None, None]


def test_acting_on_messages_exits_as_it_should(run: Run, acme: str) -> None:
    number = run(*EMAIL).stdout.strip()
    assert run("messages", "retry", number).exit_code == 4
    assert run("messages", "cancel", number).stdout == f"message {number} is canceled\n"
    assert run("messages", "cancel", number).exit_code == 4
    assert run("messages", "retry", number).stdout == f"message {number} is pending\n"
    for verb in ("show", "cancel", "retry"):
        assert run("messages", verb, "none").exit_code == 3
        assert run("messages", verb, number, "--tenant", "other").exit_code == 3
    assert "Hello." in run("messages", "show", number).stdout
    assert run("messages", "list", "--to", "ann@example.com").stderr.startswith("to: ")
    assert run("messages", "list", "--tenant", "none").exit_code == 3


def test_a_tenant_is_set_from_a_file_and_a_secret_in_it_is_refused(run: Run, ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "acme.json"
    file.write_text(json.dumps(SANDBOX | {"name": "Acme"}))
    assert ask("tenants", "set", "acme", str(file))["name"] == "Acme"
    assert "acme\tAcme\temail: sandbox" in run("tenants", "list").stdout
    secret = base64.b64encode(b"c4n4ry").decode()
    config = {"providers": {"email": {"provider": "sendgrid", "credentials": {"api_key": secret}}}}
    refused = run("tenants", "set", "acme", "-", stdin=json.dumps(config))
    assert refused.exit_code == 2
    assert refused.stderr.startswith("providers.email.credentials.api_key: ")
    assert secret not in refused.stderr
    for text in ("", "[]", "not json"):
        assert run("tenants", "set", "acme", "-", stdin=text).exit_code == 2
    assert run("tenants", "set", "acme", str(tmp_path / "missing.json")).exit_code == 2
    assert run("tenants", "set", "No Such").exit_code == 2
    assert ask("tenants", "show", "acme")["name"] == "Acme"
    assert run(*EMAIL).exit_code == 0
    assert run("tenants", "delete", "acme").exit_code == 4
    assert run("tenants", "show", "other").exit_code == 3


def test_setting_a_tenant_again_without_a_file_loses_nothing(run: Run, ask: Ask) -> None:
    assert [run("tenants", "set", "plain").exit_code for _ in range(2)] == [0, 0]
    known = ask("tenants", "set", "acme", "-", stdin=json.dumps(SANDBOX))
    refused = run("tenants", "set", "acme")
    assert (refused.exit_code, "give a FILE or - to replace" in refused.stderr) == (4, True)
    inline = run("tenants", "set", "acme", json.dumps(SANDBOX))
    assert (inline.exit_code, "give - and pipe" in inline.stderr) == (2, True)
    assert ask("tenants", "show", "acme") == known


def test_help_and_hooks_load_nothing_of_sending() -> None:
    """They start often and must start fast."""
    heavy = {"cryptography", "phonenumbers", "email_validator", "aiosmtplib", "msgspec"}
    for arguments in (["--help"], ["send", "--help"], ["hook", "--help"]):
        command = [sys.executable, "-X", "importtime", "-m", "pillarbox", *arguments]
        done = subprocess.run(command, env=environment({}, {}), capture_output=True, text=True, check=True)
        loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
        assert loaded & heavy == set()
        assert "click" in loaded
