import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from pillarbox.errors import InvalidInput
from pillarbox.hooks import pickup, spool, store
from pillarbox.hooks.receiver import is_name
from pillarbox.storage.values import instant_text
from pillarbox.text import check_name
from tests.hooks.receivers import (
    HOOK,
    hook,
    locked,
    migrate_at,
    open_session,
    patient_hook,
    query,
    spooled,
    spooled_tools,
    stored,
    tool,
)
from tests.servers.daemon import SECONDS, environment
from tests.servers.postgres import PostgresServer

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook reads its folder's pillarbox.toml; here there is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An SQLite file with our schema."""
    path = tmp_path / "pillarbox.db"
    asyncio.run(migrate_at(f"sqlite:///{path}"))
    return path


@pytest.fixture
def folder(file: Path) -> str:
    return f"{file}.spool"


@pytest.fixture
def migrated(database_url: str) -> str:
    """A database of each kind in turn, with our schema."""
    asyncio.run(migrate_at(database_url))
    return database_url


def test_events_of_a_session_are_stored_in_order_and_ready_to_be_claimed(migrated: str) -> None:
    patient_hook("--agent", "claude", "--database", migrated, event=tool(1, "n"), session="s")
    patient_hook("--agent=claude", f"--database={migrated}", event=tool("ü😀", "n"), session="s")
    assert stored(migrated) == [("s", 1, "tool-1"), ("s", 2, "tool-ü😀")]
    rows = query(migrated, "SELECT event_type, status, created_at = next_attempt_at, attempt_count FROM hook_outbox")
    assert rows == [("tool_use", "pending", True, 0)] * 2
    strand = "SELECT next_seq, head_seq, open_count, token, failing FROM hook_strand"
    assert query(migrated, strand) == [(3, 1, 2, 0, 0)]
    due = "SELECT s.due_at = o.created_at FROM hook_strand s JOIN hook_outbox o ON o.seq = s.head_seq"
    assert query(migrated, due) == [(True,)]
    assert len({key for (key,) in query(migrated, "SELECT event_key FROM hook_outbox")}) == 2


def test_the_head_of_a_session_keeps_its_due_time_or_lease(migrated: str) -> None:
    patient_hook("--database", migrated, event=tool(1), session="s")
    later = "2126-01-01T00:00:00.000000Z"
    query(migrated, f"UPDATE hook_strand SET due_at = NULL, lease_until = '{later}', holder = 'x', token = 7")
    patient_hook("--database", migrated, event=tool(2), session="s")
    leased = f"SELECT next_seq, head_seq, open_count, token, due_at IS NULL, lease_until = '{later}' FROM hook_strand"
    assert query(migrated, leased) == [(3, 1, 2, 7, True, True)]


def test_the_named_session_is_opened_headless_unless_it_exists(migrated: str) -> None:
    patient_hook("--agent", "codex", "--database", migrated, event=tool(1, "n"), session="new")
    session = "SELECT session_id, lifecycle_status, target, agent, native_session_id, closed_at FROM sessions"
    assert query(migrated, session) == [("new", "headless", '{"kind": "none"}', "codex", "n", None)]
    strand = "SELECT session_id, destination, served_by, state, next_seq, token, head_seq FROM inbound_strand"
    assert query(migrated, strand) == [("new", "none", "nobody", "open", 1, 0, None)]
    patient_hook("--agent", "claude", "--database", migrated, event=tool(2, "other"), session="new")
    assert query(migrated, session) == [("new", "headless", '{"kind": "none"}', "codex", "n", None)]
    assert stored(migrated) == [("new", 1, "tool-1"), ("new", 2, "tool-2")]


def test_an_event_finds_its_session_by_the_agents_own_id(migrated: str) -> None:
    open_session(migrated, "old", "n", "1")
    open_session(migrated, "newer", "n", "3")
    open_session(migrated, "closed", "n", "5", "closed")
    open_session(migrated, "long-closed", "m", "1", "closed")
    open_session(migrated, "just-closed", "m", "2", "closed")
    patient_hook("--database", migrated, event=tool(1, "n"))
    patient_hook("--database", migrated, event=tool(2, "m"))
    patient_hook("--database", migrated, event=tool(3, "n"), session="old")
    assert stored(migrated) == [("newer", 1, "tool-1"), ("just-closed", 1, "tool-2"), ("old", 1, "tool-3")]


def test_an_unknown_agent_session_is_opened_headless_once(migrated: str) -> None:
    patient_hook("--database", migrated, event=tool(1, "n"))
    patient_hook("--database", migrated, event=tool(2, "n"))
    ((session, status, native),) = query(
        migrated, "SELECT session_id, lifecycle_status, native_session_id FROM sessions"
    )
    assert (status, native, len(session), session[14]) == ("headless", "n", 36, "8")
    assert stored(migrated) == [(session, 1, "tool-1"), (session, 2, "tool-2")]


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", "a\x7f", "\udcff"])
def test_an_invalid_session_name_is_as_none(file: Path, folder: str, name: str) -> None:
    hook("--database", f"sqlite:///{file}", event=tool(1), session=name)
    assert stored(file) == []
    hook("--database", f"sqlite:///{file}", event=tool(2, "n"), session=name)
    assert [tool for _, _, tool in stored(file)] == ["tool-2"]
    assert spooled(folder) == []


def test_events_nobody_handles_or_nobody_owns_are_dropped(file: Path, folder: str) -> None:
    for event in ({"hook_event_name": "SessionEnd", "session_id": "n"}, {"session_id": "n"}, {}):
        hook("--database", f"sqlite:///{file}", event=event, session="s")
    hook("--database", f"sqlite:///{file}", event=tool(1))
    assert stored(file) == []
    assert query(file, "SELECT * FROM sessions") == []
    assert spooled(folder) == []


@pytest.mark.parametrize(
    ("stdin", "said"),
    [
        (b"", "not JSON"),
        (b"{secret", "not JSON"),
        (b'{"secret": "\xff"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'["secret"]', "not a JSON object"),
        (b'"secret"', "not a JSON object"),
        (b'{"secret": "' + b"x" * 17 * 1024 * 1024 + b'"}', "larger than 16 MiB"),
    ],
    ids=["empty", "cut off", "not UTF-8", "too deep", "a list", "a text", "too large"],
)
def test_broken_input_leaves_an_error_where_the_session_is_known(file: Path, stdin: bytes, said: str) -> None:
    hook("--database", f"sqlite:///{file}", stdin=stdin)
    assert stored(file) == []
    hook("--database", f"sqlite:///{file}", stdin=stdin, session="s")
    ((event_type, text),) = query(file, "SELECT event_type, payload FROM hook_outbox")
    payload = json.loads(text)
    assert (event_type, payload["code"], sorted(payload)) == ("error", "broken_input", ["code", "message"])
    assert said in payload["message"]
    assert "secret" not in text


def test_an_event_of_many_megabytes_is_taken(file: Path) -> None:
    hook("--database", f"sqlite:///{file}", event=tool(1) | {"tool_input": "x" * 15 * 1024 * 1024}, session="s")
    assert stored(file) == [("s", 1, "tool-1")]


def test_an_agent_that_never_closes_the_pipe_is_not_waited_for_for_ever(file: Path) -> None:
    command = [*HOOK, "--database", f"sqlite:///{file}"]
    env = environment({}, {"PILLARBOX_SESSION": "s"})
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(json.dumps(tool(1)).encode())
        process.stdin.flush()
        assert process.wait(SECONDS) == 0
    assert stored(file) == [("s", 1, "tool-1")]


def test_closed_streams_do_no_harm(file: Path) -> None:
    line = '"$@" <&- >&- 2>&-'
    command = ["sh", "-c", line, "sh", *HOOK, "--database", f"sqlite:///{file}"]
    done = subprocess.run(command, env=environment({}, {"PILLARBOX_SESSION": "s"}), timeout=SECONDS, check=False)
    assert done.returncode == 0
    assert query(file, "SELECT event_type FROM hook_outbox") == [("error",)]
    assert query(file, "PRAGMA integrity_check") == [("ok",)]


def test_an_interrupted_agent_still_gets_its_event_stored(file: Path) -> None:
    command = [*HOOK, "--database", f"sqlite:///{file}"]
    env = environment({}, {"PILLARBOX_SESSION": "s"})
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ignored = sum(1 << (number - 1) for number in numbers)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        while ignored & ~_signals_ignored(process.pid):
            assert process.poll() is None
        for number in numbers:
            process.send_signal(number)
        assert process.communicate(json.dumps(tool(1)).encode(), SECONDS) == (b"", b"")
    assert process.returncode == 0
    assert stored(file) == [("s", 1, "tool-1")]


def _signals_ignored(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
    return int(line.split()[1], 16)


def test_codex_gives_its_event_as_the_last_argument(file: Path) -> None:
    event = {"type": "agent-turn-complete", "thread-id": "n", "last-assistant-message": "done"}
    hook("--agent", "codex", "--database", f"sqlite:///{file}", json.dumps(event), stdin=b"no JSON")
    ((event_type, text),) = query(file, "SELECT event_type, payload FROM hook_outbox")
    assert (event_type, json.loads(text)["summary"]) == ("agent_stop", "done")
    assert query(file, "SELECT agent, native_session_id FROM sessions") == [("codex", "n")]


def test_options_it_does_not_know_do_no_harm(file: Path) -> None:
    hook(
        "--nonsense", "--agent", "x" * 500, "-v", "--database", f"sqlite:///{file}", "more", event=tool(1), session="s"
    )
    hook("--database", f"sqlite:///{file}", "--agent", event=tool(2), session="s")
    assert [tool for _, _, tool in stored(file)] == ["tool-1", "tool-2"]


def test_variables_name_the_database_and_the_spool(file: Path, tmp_path: Path) -> None:
    hook(event=tool(1), session="s", PILLARBOX_DATABASE=f"sqlite:///{file}")
    hook(event=tool(2), session="s")
    assert [tool for _, _, tool in stored(file)] == ["tool-1", "tool-2"]
    gone = "sqlite:///gone.db"
    hook("--database", gone, event=tool(3), session="s", PILLARBOX_HOOKS__SPOOL_DIR="variable")
    (tmp_path / "pillarbox.toml").write_text("[hooks]\nspool_dir = 'setting'\n")
    hook("--database", gone, event=tool(4), session="s")
    hook("--database", gone, "--spool-dir", "option", event=tool(5), session="s", PILLARBOX_HOOKS__SPOOL_DIR="no")
    (tmp_path / "pillarbox.toml").write_text("[hooks]\nspool_dir = \n")
    hook("--database", gone, event=tool(6), session="s")
    where = {name: spooled_tools(name) for name in ("variable", "setting", "option", "gone.db.spool")}
    assert where == {"variable": ["tool-3"], "setting": ["tool-4"], "option": ["tool-5"], "gone.db.spool": ["tool-6"]}


def _read_only(file: Path) -> None:
    """A file of a later format, which SQLite reads and does not write."""
    content = bytearray(file.read_bytes())
    content[18] = 3
    file.write_bytes(content)


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


TROUBLES: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: file.unlink(),
    "a folder": _folder,
    "garbage": lambda file: file.write_bytes(b"garbage" * 1000),
    "cut off": lambda file: os.truncate(file, 10_000),
    "empty": lambda file: os.truncate(file, 0),
    "read-only": _read_only,
    "an older schema": lambda file: query(file, "DROP TABLE hook_outbox"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_database_that_cannot_take_it_leaves_the_event_in_the_spool(file: Path, trouble: str) -> None:
    TROUBLES[trouble](file)
    url = f"sqlite:///{file}"
    hook("--agent", "claude", "--database", url, "--spool-dir", "spool", event=tool(1, "n"), session="s")
    (record,) = spooled("spool")
    assert abs(record.pop("at") - time.time()) < 60
    assert len(record.pop("key")) == 32
    assert record.pop("payload")["tool_name"] == "tool-1"
    named = {"session_id": "s", "native_session_id": "n", "agent": "claude"}
    assert record == {"v": 1, "event_type": "tool_use"} | named
    assert file.exists() == (trouble != "missing")


def test_a_database_nobody_knows_leaves_the_event_in_the_spool() -> None:
    hook("--database", "mysql://localhost/x", "--spool-dir", "spool", event=tool(1), session="s")
    assert spooled_tools("spool") == ["tool-1"]


def test_without_a_spool_the_database_still_takes_events(file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    unwritable = str(tmp_path / "file" / "spool")
    hook("--database", f"sqlite:///{file}", "--spool-dir", unwritable, event=tool(1), session="s")
    assert stored(file) == [("s", 1, "tool-1")]
    hook("--database", "sqlite:///gone.db", "--spool-dir", unwritable, event=tool(2), session="s")


def test_a_locked_database_is_waited_for_a_second_and_nobody_overtakes_the_spool(file: Path, folder: str) -> None:
    url = f"sqlite:///{file}"
    with locked(file):
        before = time.monotonic()
        hook("--database", url, event=tool(1), session="s")
        assert 0.9 < time.monotonic() - before < 10
        hook("--database", url, event=tool(2), session="s")
    patient_hook("--database", url, event=tool(3), session="s")
    patient_hook("--database", url, event=tool(4), session="other")
    assert spooled_tools(folder) == ["tool-1", "tool-2", "tool-3"]
    assert stored(file) == [("other", 1, "tool-4")]
    for batch in pickup.take(folder):
        batch.done()
    patient_hook("--database", url, event=tool(5), session="s")
    assert stored(file) == [("other", 1, "tool-4"), ("s", 1, "tool-5")]
    assert list(Path(folder).iterdir()) == []


def test_nobody_overtakes_by_another_name_of_the_session(file: Path, folder: str) -> None:
    url = f"sqlite:///{file}"
    open_session(file, "s", "n", "1")
    with locked(file):
        hook("--database", url, event=tool(1, "n"), session="s")
        hook("--database", url, event=tool(2, "m"))
    patient_hook("--database", url, event=tool(3, "n"))
    patient_hook("--database", url, event=tool(4, "m"), session="t")
    assert stored(file) == []
    assert spooled_tools(folder) == ["tool-1", "tool-3", "tool-2", "tool-4"]


def test_an_event_whose_file_is_held_is_put_aside_in_its_place(file: Path, folder: str) -> None:
    url = f"sqlite:///{file}"
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    hook("--database", url, event=tool(1), session="s")
    slot.close()
    hook("--database", url, event=tool(2), session="s")
    assert stored(file) == []
    assert spooled_tools(folder) == ["tool-1", "tool-2"]


def test_an_event_that_is_stored_already_is_not_counted_again(migrated: str, tmp_path: Path) -> None:
    named = {"session_id": "s", "native_session_id": None, "agent": None}
    record = {"key": "k", "event_type": "tool_use", "payload": {"tool_name": "tool-1"}, **named}
    for _ in range(2):
        store.store(record, migrated, str(tmp_path / "spool"))
    assert stored(migrated) == [("s", 1, "tool-1")]
    assert query(migrated, "SELECT next_seq, open_count FROM hook_strand") == [(2, 1)]


def test_instants_are_on_the_timeline_of_the_file(file: Path) -> None:
    query(file, f"UPDATE boot_clock SET offset_seconds = 1e9 WHERE boot_id = '{BOOT_ID.read_text().strip()}'")
    hook("--database", f"sqlite:///{file}", event=tool(1), session="s")
    query(file, "DELETE FROM boot_clock")
    hook("--database", f"sqlite:///{file}", event=tool(2), session="s")
    ((shifted,), (measured,)) = query(file, "SELECT created_at FROM hook_outbox ORDER BY seq")
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(datetime.fromisoformat(shifted).timestamp() - uptime - 1e9) < 60
    assert abs(datetime.fromisoformat(measured).timestamp() - time.time()) < 60
    ((boot, offset),) = query(file, "SELECT boot_id, offset_seconds FROM boot_clock")
    assert boot == BOOT_ID.read_text().strip()
    assert abs(offset + uptime - time.time()) < 60


def test_instants_are_on_the_timeline_of_the_server(postgres_url: str) -> None:
    asyncio.run(migrate_at(postgres_url))
    query(postgres_url, "UPDATE timeline SET correction = -86400")
    patient_hook("--database", postgres_url, event=tool(1), session="s")
    ((behind,),) = query(postgres_url, "SELECT now() - created_at FROM hook_outbox")
    assert abs(behind - timedelta(days=1)) < timedelta(seconds=60)


@pytest.mark.parametrize("seconds", [0.0, 1.9999996, 951827696.0000004, 1767225599.9999999, 4102444800.123456])
def test_instants_are_written_as_everywhere(seconds: float) -> None:
    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert store.instant_text(seconds) == instant_text(expected)


def test_names_are_judged_as_everywhere() -> None:
    def accepted(text: str) -> bool:
        try:
            check_name("session_id", text, most=200)
        except InvalidInput:
            return False
        return True

    texts = ["", "x" * 200, "x" * 201, *map(chr, range(0x11000))]
    assert [text for text in texts if is_name(text, 200) != accepted(text)] == []


def test_it_starts_without_heavy_modules(file: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "pillarbox", "hook", "--database", f"sqlite:///{file}"]
    code = "import sys; from pillarbox.hooks import receiver; import apsw; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"typing", "dataclasses", "asyncio", "threading", "logging", "hashlib", "click", "msgspec", "psycopg"}
    assert "pillarbox.hooks.receiver" in loaded
    assert heavy & set(loaded) == set()
    done = subprocess.run(command, input=json.dumps(tool(1, "n")).encode(), capture_output=True, check=True)
    assert b"pillarbox.cli" not in done.stderr
    assert [tool for _, _, tool in stored(file)] == ["tool-1"]


def test_two_hundred_receivers_lose_nothing_while_the_database_is_locked(file: Path, folder: str) -> None:
    url = f"sqlite:///{file}"
    some_spooled = threading.Event()
    release = threading.Event()

    def hold() -> None:
        with locked(file):
            started.set()
            release.wait(SECONDS)

    def run(number: int) -> None:
        hook("--database", url, event=tool(number), session=f"s{number % 20}")
        some_spooled.set()

    started = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    started.wait(SECONDS)
    since = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        running = [pool.submit(run, number) for number in range(200)]
        some_spooled.wait(SECONDS)
        threading.Event().wait(max(0.0, since + 2.0 - time.monotonic()))
        release.set()
        for each in running:
            each.result()
    holder.join()
    in_database, in_spool = stored(file), spooled(folder)
    tools = [name for _, _, name in in_database] + [record["payload"]["tool_name"] for record in in_spool]
    assert Counter(tools) == Counter(f"tool-{number}" for number in range(200))
    assert in_spool
    for session, next_seq, count in query(file, "SELECT session_id, next_seq, open_count FROM hook_strand"):
        seqs = [seq for each, seq, _ in in_database if each == session]
        assert (seqs, next_seq, count) == (list(range(1, len(seqs) + 1)), len(seqs) + 1, len(seqs))


def test_a_receiver_killed_at_any_moment_spoils_no_other_event(file: Path, folder: str) -> None:
    pipe = subprocess.PIPE
    command = [*HOOK, "--database", "sqlite:///gone.db", "--spool-dir", folder]
    env = environment({}, {"PILLARBOX_SESSION": "s"})
    for number in range(24):
        with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe) as process:
            assert process.stdin
            process.stdin.write(json.dumps(tool(f"killed-{number}")).encode())
            process.stdin.close()
            assert process.stdout
            # From the moment it silenced itself until its end there is little but the append.
            select.select([process.stdout], [], [], SECONDS)
            threading.Event().wait(number * 0.0005)
            process.kill()
        if number % 4 == 0:
            hook("--database", "sqlite:///gone.db", "--spool-dir", folder, event=tool(number), session="s")
    kept = spooled_tools(folder)
    assert [name for name in kept if "killed" not in name] == [f"tool-{number}" for number in range(0, 24, 4)]
    assert len(set(kept)) == len(kept)
    assert list(Path(folder).glob("*.broken")) == []


def test_a_server_that_is_down_or_silent_leaves_the_event_in_the_spool(
    private_postgres: PostgresServer, tmp_path: Path
) -> None:
    url = private_postgres.url
    asyncio.run(migrate_at(url))
    patient_hook("--database", url, event=tool(1), session="s")
    private_postgres.stop("immediate")
    hook("--database", url, event=tool(2), session="s")
    private_postgres.start()
    hook("--database", url, event=tool(3), session="s")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        before = time.monotonic()
        hook("--database", f"postgresql://u@127.0.0.1:{port}/d", event=tool(4), session="t")
        assert time.monotonic() - before < 10
    assert stored(url) == [("s", 1, "tool-1")]
    folders = tmp_path / "state/pillarbox/spool"
    assert spooled_tools(folders / f"127.0.0.1_{port}_d") == ["tool-4"]
    (other,) = (folder for folder in folders.iterdir() if folder.name != f"127.0.0.1_{port}_d")
    assert spooled_tools(other) == ["tool-2", "tool-3"]


def test_a_session_locked_on_the_server_leaves_its_event_in_the_spool(postgres_url: str, tmp_path: Path) -> None:
    asyncio.run(migrate_at(postgres_url))
    url = f"{postgres_url}?pooler=transaction"
    patient_hook("--database", url, event=tool(1), session="s")
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT * FROM sessions WHERE session_id = 's' FOR UPDATE")
        hook("--database", url, event=tool(2), session="s")
        patient_hook("--database", url, event=tool(3), session="t")
    assert stored(postgres_url) == [("s", 1, "tool-1"), ("t", 1, "tool-3")]
    (folder,) = (tmp_path / "state/pillarbox/spool").iterdir()
    assert spooled_tools(folder) == ["tool-2"]
