"""The command line, given anything: an exit code that means something, one sentence, and no control characters."""

import asyncio
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import click
import click.testing
import pytest

from pillarbox.cli.main import cli
from tests.hostile.corpus.texts import ADDRESSES, CANARY, INSTANTS, TEXTS
from tests.hostile.stand import Stand, open_stand

pytestmark = pytest.mark.long

SEED = 20260101
# A thing of each kind that moves a terminal or turns its text.
HOSTILE = f"\x1b]52;c;{CANARY}\x07\x1b[2J\x1b[31m \x9b5m\x9d0;x\x9c \x7f\x08\r \u2028\u2029 \u202e\u2066 [red]"
ON_ONE_LINE = "[red]\u202e\u2066\u200b e\u0301 \U0001f4ee"
MISLEADING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# These run until stopped, or change files of other programs; their own tests start them.
NOT_HERE = {"dev", "serve", "worker", "bench", "hook install", "hook uninstall", "backup", "restore"}
EVERY_TRY = 6


def commands(group: click.Group = cli, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in sorted(group.commands.items()):
        if " ".join((*above, name)) in NOT_HERE:
            continue
        if isinstance(command, click.Group):
            yield from commands(command, (*above, name))
        else:
            yield (*above, name), command


def run(url: str, *arguments: str, stdin: bytes = b"") -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli, ["--database", url, *arguments], input=stdin)


def check(done: click.testing.Result, arguments: object) -> None:
    shown = (arguments, done.exit_code, done.output[:500])
    assert done.exit_code in (0, 2, 3, 4), shown
    assert "Traceback" not in done.output, shown
    assert MISLEADING.search(done.output) is None, shown
    if done.exit_code:
        assert done.stdout == "", shown
        assert done.stderr.count("\n") == 1, shown
        assert len(done.stderr) <= 2001, shown


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command reads its folder's pillarbox.toml and the environment; here both hold nothing."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("PILLARBOX_") and not name.startswith("PILLARBOX_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def filled(sqlite_url: str) -> dict[str, str]:
    """The names of one of everything, on SQLite."""

    async def fill() -> dict[str, str]:
        async with open_stand(sqlite_url) as stand:
            return dict(stand.names)

    return asyncio.run(fill())


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_hostile_arguments_to_every_command_are_one_sentence_and_an_exit_code(
    sqlite_url: str, filled: dict[str, str]
) -> None:
    dice = random.Random(SEED)
    # No system passes NUL on.
    corpus = [text for text in (*TEXTS, *ADDRESSES, *INSTANTS) if "\0" not in text and not text.startswith(("/", "-"))]
    tried = 0
    for path, command in commands():
        parameters = [one for one in command.params if one.name not in ("database", "config", "json", "help", "yes")]
        for parameter in parameters:
            for hostile in dice.sample(corpus, EVERY_TRY):
                given = [*path]
                for other in parameters:
                    value = hostile if other is parameter else filled.get(other.name or "", "x")
                    if isinstance(other, click.Argument):
                        given.append(value)
                    elif other is parameter or other.required:
                        given += [max(other.opts, key=len), value][: 1 if getattr(other, "is_flag", False) else 2]
                check(run(sqlite_url, *given), given)
                tried += 1
    assert tried > 300


def test_arguments_that_are_not_utf8_are_wrong_usage(sqlite_url: str, filled: dict[str, str]) -> None:
    for path, _ in commands():
        done = run(sqlite_url, *path, "\udcff")
        assert (path, done.exit_code, done.stdout) == (path, 2, "")
        assert "UTF-8" in done.stderr


@pytest.mark.parametrize(
    "stdin",
    [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"a\0b", b"[" * 100_000, b"x" * (2**20 + 1) + b"\0"],
    ids=["not UTF-8", "a surrogate", "overlong", "NUL", "deep", "large"],
)
def test_hostile_bytes_on_stdin_are_wrong_usage(sqlite_url: str, filled: dict[str, str], stdin: bytes) -> None:
    tenant = filled["tenant"]
    for arguments in (
        ["tenants", "set", tenant, "-"],
        ["send", "webhook", "--tenant", tenant, "--to", "https://example.com/", "--body", "-"],
    ):
        done = run(sqlite_url, *arguments, stdin=stdin)
        check(done, arguments)
        assert (arguments, done.exit_code) == (arguments, 2)
        assert CANARY not in done.stderr
    if not stdin.startswith(b"["):
        text = ["send", "email", "--tenant", tenant, "--to", "a@example.com", "--text", "-"]
        assert run(sqlite_url, *text, stdin=stdin).exit_code == 2
        assert run(sqlite_url, "inbound", "post", filled["session_id"], "-", stdin=stdin).exit_code == 2


def test_unknown_ids_are_exit_3_and_refused_acts_exit_4(sqlite_url: str, filled: dict[str, str]) -> None:
    for arguments in (
        ["sessions", "show", ON_ONE_LINE],
        ["sessions", "close", ON_ONE_LINE],
        ["inbound", "post", ON_ONE_LINE, "x"],
        ["inbound", "show", "999"],
        ["inbound", "retry", "999"],
        ["inbound", "expire", "999"],
        ["hooks", "show", "999"],
        ["hooks", "retry", "999"],
        ["messages", "show", HOSTILE],
        ["messages", "cancel", HOSTILE],
        ["messages", "retry", HOSTILE],
        ["tenants", "show", HOSTILE],
        ["tenants", "delete", HOSTILE],
        ["opt-outs", "remove", "--tenant", filled["tenant"], HOSTILE],
        ["opt-outs", "remove", "--tenant", HOSTILE, "x"],
        ["keys", "revoke", HOSTILE],
    ):
        done = run(sqlite_url, *arguments)
        check(done, arguments)
        assert (arguments, done.exit_code) == (arguments, 3)
    assert run(sqlite_url, "inbound", "expire", filled["id"]).exit_code == 0
    assert run(sqlite_url, "messages", "cancel", filled["message_id"]).exit_code == 0
    assert run(sqlite_url, "sessions", "close", filled["session_id"]).exit_code == 0
    for arguments in (
        ["inbound", "expire", filled["id"]],
        ["messages", "cancel", filled["message_id"]],
        ["inbound", "post", filled["session_id"], "x"],
    ):
        done = run(sqlite_url, *arguments)
        check(done, arguments)
        assert (arguments, done.exit_code) == (arguments, 4)


async def _plant(stand: Stand) -> dict[str, str]:
    """Hostile text wherever others may put text."""
    names, client = stand.names, stand.client
    tenant = f"/v1/tenants/{names['tenant']}"
    sandbox = {"providers": {"email": {"provider": "sandbox"}}}
    inbound = {
        "session_id": names["session_id"],
        "origin": ON_ONE_LINE,
        "content": HOSTILE,
        "payload": {HOSTILE: [HOSTILE]},
    }
    email = {"channel": "email", "to": "a@example.com", "subject": ON_ONE_LINE, "text": HOSTILE, "html": HOSTILE}
    event = {"session_id": names["session_id"], "event_type": ON_ONE_LINE, "payload": {HOSTILE: [HOSTILE]}}
    planted: dict[str, str] = {}
    for method, path, body in (
        ("PATCH", f"/v1/sessions/{names['session_id']}", {"title": HOSTILE, "agent": ON_ONE_LINE}),
        ("POST", "/v1/inbound", inbound | {"actor_name": ON_ONE_LINE, "actor_id": ON_ONE_LINE}),
        ("POST", "/v1/hooks", event),
        ("PUT", tenant, sandbox | {"name": ON_ONE_LINE}),
        ("POST", f"{tenant}/messages", email | {"tags": [ON_ONE_LINE]}),
        ("POST", f"{tenant}/opt-outs", {"contact": "b@example.com", "reason": HOSTILE}),
        ("POST", "/v1/keys", {"name": ON_ONE_LINE}),
        ("POST", "/v1/inbox/try-begin", {"key": ON_ONE_LINE, "owner": ON_ONE_LINE}),
    ):
        reply = await client.request(method, path, body)
        assert reply.status in (200, 201, 202), (path, reply.body)
        planted[path] = str(reply.json().get("id") or reply.json().get("message_id") or "")
    return names | {
        "id": planted["/v1/inbound"],
        "event_id": planted["/v1/hooks"],
        "message_id": planted[f"{tenant}/messages"],
    }


def test_what_others_wrote_cannot_move_or_mislead_the_terminal(sqlite_url: str) -> None:
    async def plant() -> dict[str, str]:
        async with open_stand(sqlite_url) as stand:
            return await _plant(stand)

    names = asyncio.run(plant())
    seen = ""
    for arguments in (
        ["sessions", "list"],
        ["sessions", "show", names["session_id"]],
        ["inbound", "list"],
        ["inbound", "show", names["id"]],
        ["hooks", "list"],
        ["hooks", "show", names["event_id"]],
        ["messages", "list"],
        ["messages", "show", names["message_id"]],
        ["tenants", "list"],
        ["tenants", "show", names["tenant"]],
        ["opt-outs", "list", "--tenant", names["tenant"]],
        ["keys", "list"],
        ["inbox", "show", ON_ONE_LINE],
        ["status"],
    ):
        for form in ([], ["--json"]):
            done = run(sqlite_url, *arguments, *form)
            assert done.exit_code == 0, done.output
            assert MISLEADING.search(done.output) is None, (arguments, form, done.output)
            seen += done.output
    assert seen.count("\\u202e") > 10
    assert seen.count("\\u001b]52;c;") > 3


def test_a_settings_file_full_of_nonsense_is_wrong_usage(tmp_path: Path, sqlite_url: str) -> None:
    file = tmp_path / "odd.toml"
    for content in (
        b"\xff\xfe",
        b"\0",
        b"[" * 10_000,
        b"[inbound]\n" + HOSTILE.encode() + b"=1",
        b"[inbound]\nlease_seconds=nan",
    ):
        file.write_bytes(content)
        done = run(sqlite_url, "--config", str(file), "status")
        check(done, content[:50])
        assert (content[:50], done.exit_code) == (content[:50], 2)
