"""One event into the database by a process that lives for nothing else: a connection, a transaction, a second at most."""

import json
import time
from zlib import crc32

from pillarbox.hooks import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Ask = Callable[[str, Sequence[object]], list[Any]]

DATABASE_SECONDS = 1.0
_SAFE_SQLITE = (3, 51, 3)
_LONGEST_PAUSE = 0.02
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

_LOCK_SESSION = "SELECT session_id FROM sessions WHERE session_id = ?"
_LOCK_NATIVE = """SELECT session_id FROM sessions WHERE native_session_id = ?
ORDER BY CASE lifecycle_status WHEN 'closed' THEN 1 ELSE 0 END, created_at DESC, session_id DESC LIMIT 1"""
_OPEN_SESSION = """INSERT INTO sessions
(session_id, lifecycle_status, target, agent, native_session_id, created_at, updated_at)
VALUES (?, 'headless', '{"kind": "none"}', ?, ?, ?, ?) ON CONFLICT (session_id) DO NOTHING RETURNING session_id"""
_OPEN_INBOUND = """INSERT INTO inbound_strand (session_id, destination, served_by, state, next_seq, token)
VALUES (?, 'none', 'nobody', 'open', 1, 0) ON CONFLICT (session_id) DO NOTHING"""
_OPEN_STRAND = (
    "INSERT INTO hook_strand (session_id, next_seq, token) VALUES (?, 1, 0) ON CONFLICT (session_id) DO NOTHING"
)
_LOCK_STRAND = "SELECT next_seq FROM hook_strand WHERE session_id = ?"
_INSERT = """INSERT INTO hook_outbox (session_id, seq, event_type, event_key, created_at, next_attempt_at, payload, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (event_key) WHERE event_key IS NOT NULL DO NOTHING RETURNING id"""
_LENGTHEN = """UPDATE hook_strand SET next_seq = next_seq + 1, open_count = open_count + 1,
head_seq = COALESCE(head_seq, ?), due_at = CASE WHEN head_seq IS NULL THEN ? ELSE due_at END WHERE session_id = ?"""
_FOR_UPDATE = " FOR NO KEY UPDATE"

_RECALL_BOOT = "SELECT offset_seconds FROM boot_clock WHERE boot_id = ?"
_REMEMBER_BOOT = "INSERT INTO boot_clock (boot_id, offset_seconds) VALUES (?, ?)"
_BEGIN_POSTGRES = """BEGIN; SET LOCAL synchronous_commit = on;
SET LOCAL statement_timeout = 1000; SET LOCAL lock_timeout = 1000"""
_POSTGRES_TIME = "SELECT extract(epoch FROM clock_timestamp())::float8 + correction FROM timeline WHERE id = 1"


class WouldOvertake(Exception):
    """Older events of the session wait in the spool under its id."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def store(record: "dict[str, Any]", database: str, folder: str | None) -> None:
    """Store an event in the database within a second, or raise; without a folder nothing waits that it could overtake."""
    path = spool.sqlite_path(database)
    if path is None:
        _store_in_postgres(record, database, folder)
    else:
        _store_in_sqlite(record, path, folder)


def _store_in_sqlite(record: "dict[str, Any]", path: str, folder: str | None) -> None:
    import apsw

    if tuple(map(int, apsw.sqlite_lib_version().split(".")[:3])) < _SAFE_SQLITE:
        raise RuntimeError("This SQLite can corrupt a file that several processes write.")
    deadline = time.monotonic() + DATABASE_SECONDS
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_handler(lambda tries: _wait(tries, deadline))
        # Whoever comes next finds the log as it is: copying it into the file would take longer than the event took.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for pragma in ("synchronous = full", "fullfsync = 1", "checkpoint_fullfsync = 1"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")

        def ask(sql: str, params: "Sequence[object]") -> "list[Any]":
            return list(connection.execute(sql, tuple(params)))

        _insert(ask, record, _boot_time(ask), folder)
        connection.execute("COMMIT")
    finally:
        connection.close(True)


def _wait(tries: int, deadline: float) -> bool:
    """Whether to try again: all waits together end by the deadline."""
    time.sleep(min(0.001 * 2 ** min(tries, 10), _LONGEST_PAUSE))
    return time.monotonic() < deadline


def _boot_time(ask: "Ask") -> float:
    """The present on the file's timeline: this boot's uptime plus the offset that its processes share."""
    try:
        with open(_BOOT_ID) as file:
            boot = file.read().strip()
        uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        return time.time()
    rows = ask(_RECALL_BOOT, [boot])
    if rows:
        return uptime + float(rows[0][0])
    now = time.time()
    ask(_REMEMBER_BOOT, [boot, now - uptime])
    return now


def _store_in_postgres(record: "dict[str, Any]", url: str, folder: str | None) -> None:
    """A thread does it, for a name server or a dead network can hold up a connection for longer than we may wait."""
    import threading

    import psycopg

    from pillarbox.storage.postgres_url import PostgresAddress

    conninfo = PostgresAddress.parse(url).conninfo
    outcome: list[BaseException | None] = []

    def attempt() -> None:
        try:
            with psycopg.connect(conninfo, autocommit=True, prepare_threshold=None, connect_timeout=2) as connection:

                def ask(sql: str, params: "Sequence[object]") -> "list[Any]":
                    locked = sql + _FOR_UPDATE if sql in (_LOCK_SESSION, _LOCK_NATIVE, _LOCK_STRAND) else sql
                    cursor = connection.execute(locked.replace("?", "%s").encode(), params)
                    return cursor.fetchall() if cursor.description else []

                connection.execute(_BEGIN_POSTGRES)
                ((now,),) = ask(_POSTGRES_TIME, [])
                _insert(ask, record, now, folder)
                connection.execute("COMMIT")
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(DATABASE_SECONDS)
    # If it commits after all, the event's key tells the spool's copy from a new one.
    failed = outcome[0] if outcome else TimeoutError("The database did not answer in time.")
    if failed:
        raise failed


def _insert(ask: "Ask", record: "dict[str, Any]", seconds: float, folder: str | None) -> None:
    """The event behind those of its session, which is opened unless it is there; nothing at all if it is stored already."""
    now = instant_text(seconds)
    session_id = _session(ask, record, now, folder)
    ask(_OPEN_STRAND, [session_id])
    ((seq,),) = ask(_LOCK_STRAND, [session_id])
    payload = json.dumps(record["payload"], ensure_ascii=False)
    # As `pillarbox.storage.checksum` counts it, which takes too long to import.
    sum_ = crc32("\0".join([session_id, record["event_type"], payload]).encode())
    if ask(_INSERT, [session_id, seq, record["event_type"], record["key"], now, now, payload, sum_]):
        ask(_LENGTHEN, [seq, now, session_id])


def _session(ask: "Ask", record: "dict[str, Any]", now: str, folder: str | None) -> str:
    session_id, native = record["session_id"], record["native_session_id"]
    found = ask(_LOCK_SESSION, [session_id]) if session_id else ask(_LOCK_NATIVE, [native])
    if found:
        named = str(found[0][0])
        if folder and not session_id and spool.is_waiting(folder, f"session:{named}"):
            raise WouldOvertake(f"session:{named}")
        return named
    named = session_id or headless_id(native)
    if ask(_OPEN_SESSION, [named, record["agent"], native, now, now]):
        ask(_OPEN_INBOUND, [named])
    return named


def headless_id(native: str) -> str:
    """The id of the session that is opened for an agent's own one: the same wherever two do it at once, of UUID's version 8."""
    value = int(spool.digest(f"headless:{native}"), 16) & ~(0xF << 76) & ~(0x3 << 62) | 0x8 << 76 | 0x2 << 62
    text = f"{value:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def instant_text(seconds: float) -> str:
    """An instant as the databases keep it."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{micros:06d}Z"
