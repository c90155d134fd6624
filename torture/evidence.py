"""All that is known after a round: what was acknowledged, what arrived, which faults there were, and what the database says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import msgspec
import psycopg

from torture.journal import entries

Entry = dict[str, Any]
_OF_A_BUG = (
    "Traceback (most recent call last)",
    "bug in Pillarbox",
    "Task exception was never retrieved",
    "never awaited",
)


class Message(NamedTuple):
    """A row of `inbound_queue`."""

    id: int
    session: str
    seq: int
    status: str
    attempts: int
    token: int
    source: str | None


class Strand(NamedTuple):
    """A row of `inbound_strand`."""

    session: str
    token: int
    state: str
    open: int


class Event(NamedTuple):
    """A row of `hook_outbox`."""

    id: int
    session: str
    seq: int
    event_type: str
    status: str
    attempts: int
    superseded_by: int | None
    payload: str


class Sent(NamedTuple):
    """A row of `message_history`."""

    id: str
    status: str
    attempts: int
    most: int
    address: str | None
    tenant: str


class Attempt(NamedTuple):
    """A row of `message_attempt`."""

    id: str
    attempt: int
    outcome: str
    status_code: int | None


class Remembered(NamedTuple):
    """A row of `idempotency_key`, which has a digest of the key alone."""

    tenant: str
    id: str


class Order(NamedTuple):
    """A row of the program's own table, written in the transaction of its message."""

    id: str
    place: str


class Key(NamedTuple):
    """A row of `inbox`."""

    key: str
    status: str
    lease: str


@dataclass(kw_only=True)
class Evidence:
    """What the rules look at; a test can plant any of it."""

    ledger: list[Entry] = field(default_factory=list)
    arrivals: list[Entry] = field(default_factory=list)
    faults: list[Entry] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    strands: list[Strand] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    queue: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    idempotent: list[Remembered] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    reported: list[Entry] = field(default_factory=list)
    moments: list[Entry] = field(default_factory=list)
    stalls: list[Entry] = field(default_factory=list)
    bugs: list[Entry] = field(default_factory=list)
    one_writer: bool = False
    nodes: int = 2
    lease: float = 4.0
    inbox_lease: float = 3.0

    def noted(self, pipe: str, kind: str) -> list[Entry]:
        """What the producers wrote down of one kind."""
        return [entry for entry in self.ledger if entry["pipe"] == pipe and entry["kind"] == kind]

    def arrived(self, pipe: str) -> list[Entry]:
        """What reached the target, in the order in which it came."""
        return [entry for entry in self.arrivals if entry["pipe"] == pipe]


def gather(folder: Path, database: str, *, nodes: int, lease: float, inbox_lease: float) -> Evidence:
    """Read every journal in a round's folder, and the tables past all of our own code."""
    found = Evidence(nodes=nodes, lease=lease, inbox_lease=inbox_lease, one_writer=database.startswith("sqlite"))
    found.ledger = read_ledger(folder)
    recorded = sorted(entries(folder / "arrivals.jsonl"), key=lambda entry: float(entry["at"]))
    found.arrivals = [entry for entry in recorded if entry["pipe"] != "recorder"]
    found.stalls = [entry for entry in recorded if entry["pipe"] == "recorder"]
    found.faults = list(entries(folder / "faults.jsonl"))
    found.reported = list(entries(folder / "reported.jsonl"))
    found.moments = list(entries(folder / "moments.jsonl"))
    found.bugs = list(_bugs(folder))
    _read_tables(found, _reader(database))
    return found


def read_ledger(folder: Path) -> list[Entry]:
    """What producers and callers wrote down; what each did is in the order in which it did it."""
    return [entry for path in [folder / "ledger.jsonl", *folder.glob("caller-*.jsonl")] for entry in entries(path)]


def _bugs(folder: Path) -> Iterator[Entry]:
    """What nodes wrote that they write only where something is wrong with themselves."""
    for log in sorted(folder.glob("n[0-9]*.log")):
        for line in log.read_text(errors="replace").splitlines():
            if any(mark in line for mark in _OF_A_BUG):
                yield {"node": log.stem, "said": line}


def _read_tables(found: Evidence, read: Any) -> None:
    found.messages = [
        Message(*row)
        for row in read(
            "SELECT id, session_id, seq, status, attempt_count, token, source_message_id FROM inbound_queue ORDER BY id"
        )
    ]
    found.strands = [Strand(*row) for row in read("SELECT session_id, token, state, open_count FROM inbound_strand")]
    columns = "id, session_id, seq, event_type, status, attempt_count, superseded_by, payload"
    found.events = [
        Event._make([*row[:7], _text(row[7])]) for row in read(f"SELECT {columns} FROM hook_outbox ORDER BY id")
    ]
    columns = "message_id, status, attempt_count, max_attempts, to_address, tenant_id"
    found.sent = [Sent(str(row[0]), *row[1:]) for row in read(f"SELECT {columns} FROM message_history")]
    found.queue = [str(row[0]) for row in read("SELECT message_id FROM message_queue")]
    columns = "message_id, attempt, outcome, status_code"
    found.attempts = [
        Attempt(str(row[0]), *row[1:])
        for row in read(f"SELECT {columns} FROM message_attempt ORDER BY message_id, attempt")
    ]
    rows = read("SELECT tenant_id, message_id FROM idempotency_key")
    found.idempotent = [Remembered(tenant, str(message_id)) for tenant, message_id in rows]
    found.orders = [Order(*row) for row in read("SELECT message_id, place FROM torture_orders")]
    found.keys = [Key(*row) for row in read("SELECT key, status, lease_id FROM inbox")]


def _reader(database: str) -> Any:
    if database.startswith("sqlite"):
        file = apsw.Connection(database.removeprefix("sqlite:///"))
        file.set_busy_timeout(10_000)
        return lambda statement: list(file.execute(statement))

    def read(statement: str) -> Sequence[tuple[Any, ...]]:
        with psycopg.connect(database, autocommit=True) as server:
            return server.execute(statement.encode()).fetchall()

    return read


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
