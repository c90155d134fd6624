"""No look at the inbound queue costs more because much waits, or because much was delivered before."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pillarbox.inbound.strands import queries
from pillarbox.storage import Statement, load_queries
from pillarbox.storage.migrate import migrations
from tests.plans.log_looks import end_of_stretch, stretch
from tests.plans.looks import Filled, FilledPostgres, FilledSqlite, Look
from tests.servers.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

leases = load_queries("pillarbox.strands", strand="inbound_strand")

attention = load_queries("pillarbox.operators", "attention.sql")
seeking = load_queries("pillarbox.operators", "seeking.sql")

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SESSIONS = 1000
IDLE = 20_000
AT_ONCE = 64

_COUNTED = "(WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < {}) SELECT n FROM c)"


def session(number: int) -> str:
    return f"s{number:04}"


@dataclass(frozen=True, slots=True)
class Fill:
    """How many messages each of a thousand sessions has had delivered, and how many wait for it; with many, others are idle."""

    delivered: int
    pending: int

    @property
    def head(self) -> int:
        return self.delivered + 1


def rows_sql(numbers: str, name: str, total: int, first_seq: int, status: str) -> str:
    ended = "'2026-02-01T00:00:00.000000Z'" if status == "delivered" else "NULL"
    return f"""INSERT INTO inbound_queue
        (session_id, seq, origin, content, status, created_at, processed_at, source_message_id, token)
        SELECT {name}, n / 1000 + {first_seq}, 'chat', 'hello', '{status}', '2026-01-01T00:00:00.000000Z', {ended},
               '{status}' || n, 0
        FROM {numbers.format(total)}"""


def strands_sql(numbers: str, name: str, destination: str, fill: Fill) -> str:
    held, waits = "n % 7 = 0", "n % 3 = 0"
    return f"""INSERT INTO inbound_strand
        (session_id, destination, served_by, state, next_seq, head_seq, open_count, due_at, lease_until, holder, token)
        SELECT {name}, {destination}, 'any', 'open', {fill.head + fill.pending}, {fill.head}, {fill.pending},
            CASE WHEN {held} THEN NULL WHEN {waits} THEN '2026-07-01T00:00:00.000000Z'{{0}}
                 ELSE '2026-05-01T00:00:00.000000Z'{{0}} END,
            CASE WHEN {held} THEN '2026-06-01T00:04:00.000000Z'{{0}} END,
            CASE WHEN {held} THEN 'here' END, 5
        FROM {numbers.format(SESSIONS)}"""


def fill_up(database: Filled, fill: Fill, *, postgres: bool) -> None:
    if postgres:
        numbers, name, cast = (
            "generate_series(0, {} - 1) AS n",
            "'s' || lpad((n % 1000)::text, 4, '0')",
            "::timestamptz",
        )
        destination = "'http://' || lpad((n % 20)::text, 2, '0')"
        database.run("TRUNCATE inbound_queue, inbound_strand, sessions")
        database.run("ALTER SEQUENCE inbound_queue_id RESTART")
    else:
        numbers, name, cast = _COUNTED, "printf('s%04d', n % 1000)", ""
        destination = "printf('http://%02d', n % 20)"
        for table in ("inbound_queue", "inbound_strand", "sessions", "sqlite_sequence"):
            database.run(f"DELETE FROM {table}")
    early = f"'2026-01-01T00:00:00.000000Z'{cast}"
    database.run(
        f"""INSERT INTO sessions (session_id, lifecycle_status, target, created_at, updated_at)
            SELECT {name}, 'active', '{{}}', {early}, {early} FROM {numbers.format(SESSIONS)}"""
    )
    for total, first, status in ((fill.delivered, 1, "delivered"), (fill.pending, fill.head, "pending")):
        if total:
            sql = rows_sql(numbers, name, total * SESSIONS, first, status)
            database.run(sql.replace(".000000Z'", f".000000Z'{cast}"))
    database.run(strands_sql(numbers, name, destination, fill).format(cast))
    if fill.pending > 1:
        database.run(
            f"""INSERT INTO inbound_strand (session_id, destination, served_by, state, next_seq, token)
                SELECT 'idle' || n, {destination}, 'any', 'open', 1, 0 FROM {numbers.format(IDLE)}"""
        )


def looks_at(fill: Fill) -> dict[str, tuple[str, Statement]]:
    """Each query as the lane asks it, and the index it is written for."""
    heads = [(session(number), fill.head) for number in range(1, AT_ONCE + 1)]
    # Ids of the pending rows come after those of the delivered ones.
    ids = [fill.delivered * SESSIONS + number for number in range(1, AT_ONCE + 1)]
    settled = [(row, 0, "delivered", NOW, None, None, 0) for row in ids]
    sources = [("chat", f"pending{number}") for number in range(AT_ONCE)]
    order = "idx_inbound_queue_order"
    return {
        "due_heads": (
            "idx_inbound_strand_due",
            queries.due_heads(served_by="any", now=NOW, full=[], limit=AT_ONCE),
        ),
        "due_destinations": (
            "idx_inbound_strand_destination",
            queries.due_destinations(served_by="any", after="", steps=64, full=["http://00"], now=NOW),
        ),
        "due_heads_of": (
            "idx_inbound_strand_destination",
            queries.due_heads_of(served_by="any", destination="http://01", now=NOW, limit=AT_ONCE),
        ),
        "overdue": ("idx_inbound_strand_lease", leases.overdue(now=NOW, limit=500)),
        "overlong": ("idx_inbound_strand_lease", leases.overlong(horizon=NOW)),
        "cut_leases": ("idx_inbound_strand_lease", leases.cut_leases(horizon=NOW, lease_until=NOW)),
        "earliest_due": ("idx_inbound_strand_due", queries.earliest_due(served_by="any")),
        "earliest_lease": ("idx_inbound_strand_lease", leases.earliest_lease()),
        "duplicates": ("idx_inbound_queue_source_dedup", queries.duplicates(rows=sources)),
        "take_rows": (order, queries.take_rows(rows=[(*head, 6) for head in heads], now=NOW)),
        "outlived": (order, queries.outlived(rows=heads, deaths=3)),
        "rescue_rows": (order, queries.rescue_rows(rows=heads, now=NOW, deaths=3, later=NOW)),
        "settle_rows": ("primary key", queries.settle_rows(rows=settled)),
        "open_rows": (order, queries.open_rows(rows=heads)),
        "first_open": (order, queries.first_open(session_id=session(1), seq=fill.delivered)),
        "head": (order, queries.head(session_id=session(1), seq=fill.head)),
        "list_session": (order, queries.list_session(session_id=session(1), after=0, status="", limit=1)),
        "list": ("primary key", queries.list(after=0, status="", limit=100)),
        "oldest_rows": ("primary key", queries.oldest_rows(after=0, limit=100)),
        "prune": ("primary key", queries.prune(ids=list(range(1, AT_ONCE + 1)))),
        "get": ("primary key", queries.get(id=ids[0])),
        "log": ("primary key", stretch("pipe:inbound", NOW, before=2**62, floor=0)),
        "log_by_origin": ("primary key", stretch("origin:x", NOW, before=1000, floor=500)),
        "log_by_origin_to": ("primary key", end_of_stretch("origin:x", NOW, before=2**62)),
        "log_of_session": (order, stretch("pipe:inbound session:s0001", NOW, before=fill.head + 1, floor=fill.head)),
        "log_failing": (order, stretch("pipe:inbound status:failed", NOW, before=2**62, floor=0)),
        "stuck": (order, attention.stuck_inbound(before=NOW, most=1000)),
        "stuck_longest": ("idx_inbound_strand_failing_since", attention.stuck_inbound(before=NOW, most=1000)),
        "heads_after": ("idx_inbound_strand_failing", seeking.inbound_heads(after="", most=1)),
    }


NAMES = tuple(looks_at(Fill(1, 1)))


@dataclass(slots=True)
class Report:
    """What each query did with little in the table, with much, and once the planner had counted it."""

    small: dict[str, Look]
    large: dict[str, Look]
    counted: dict[str, Look]


def measure(database: Filled, large: Fill, *, postgres: bool) -> Report:
    for migration in migrations("postgres" if postgres else "sqlite"):
        for query in migration.statements:
            database.run(query.postgres if postgres else query.sqlite)
    if postgres:
        for table in ("inbound_queue", "inbound_strand", "sessions"):
            database.run(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    small = Fill(1, 1)
    fill_up(database, small, postgres=postgres)
    with_little = look_at_all(database, small)
    fill_up(database, large, postgres=postgres)
    with_much = look_at_all(database, large)
    database.run("ANALYZE")
    return Report(with_little, with_much, look_at_all(database, large))


def look_at_all(database: Filled, fill: Fill) -> dict[str, Look]:
    # Twice, because the first look also pays for what the fill left to tidy up.
    for _ in range(2):
        found = {name: database.look(statement) for name, (_, statement) in looks_at(fill).items()}
    return found


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("plans") / "plans.db"
        yield measure(FilledSqlite(str(path)), Fill(1000, 100), postgres=False)
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = f"plans_{uuid.uuid4().hex}"
    database = FilledPostgres(server.create_database(name))
    yield measure(database, Fill(1000, 100), postgres=True)
    database.connection.close()
    server.drop_database(name)


@pytest.mark.parametrize("name", NAMES)
def test_it_uses_the_index_it_was_written_for(report: Report, name: str) -> None:
    index, _ = looks_at(Fill(1, 1))[name]
    for look in (report.large[name], report.counted[name]):
        used = {"primary key" if used.endswith("_pkey") else used for used in look.indexes}
        assert index in used
        assert "inbound_queue" not in look.scanned
        assert "q" not in look.scanned


@pytest.mark.parametrize("name", NAMES)
def test_it_costs_the_same_whatever_waits_and_whatever_was_delivered(report: Report, name: str) -> None:
    """An index grows by a level now and then, which each row of a set pays for."""
    _, statement = looks_at(Fill(1, 1))[name]
    rows = max((len(value) for value in statement.params.values() if isinstance(value, list)), default=1)
    allowed = 2 * report.small[name].cost + 6 * max(rows, 1)
    assert report.large[name].cost <= allowed
    assert report.counted[name].cost <= allowed
