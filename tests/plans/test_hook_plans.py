"""No look at the hook outbox costs more because much was delivered before."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pillarbox.hooks.strands import queries
from pillarbox.storage import Statement, load_queries
from pillarbox.storage.migrate import migrations
from pillarbox.storage.postgres_url import _PLANNING
from tests.plans.log_looks import end_of_stretch, stretch
from tests.plans.looks import Filled, FilledPostgres, FilledSqlite, Look
from tests.servers.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

attention = load_queries("pillarbox.operators", "attention.sql")
seeking = load_queries("pillarbox.operators", "seeking.sql")
lone = load_queries("pillarbox.hooks", "lone.sql")
offers = load_queries("pillarbox.hooks", "offers.sql")
waiting = load_queries("pillarbox.storage", "waiting.sql")

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LONG_AGO = datetime(2026, 2, 1, tzinfo=UTC)
SESSIONS = 1000
IDLE = 20_000
DEAD = 50
AT_ONCE = 64
LOOK = 64

leases = load_queries("pillarbox.strands", strand="hook_strand")

_COUNTED = "(WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < {}) SELECT n FROM c)"


def session(number: int) -> str:
    return f"s{number:04}"


@dataclass(frozen=True, slots=True)
class Fill:
    """How many events each of a thousand sessions has had delivered, and how many wait for it; others are idle."""

    delivered: int
    pending: int

    @property
    def head(self) -> int:
        return self.delivered + 1


SMALL = Fill(delivered=1, pending=20)
LARGE = Fill(delivered=100, pending=20)


def rows_sql(numbers: str, name: str, total: int, first_seq: int, status: str) -> str:
    ended = "NULL" if status == "pending" else "'2026-01-15T00:00:00.000000Z'"
    return f"""INSERT INTO hook_outbox
        (session_id, seq, event_type, event_key, status, created_at, delivered_at, payload)
        SELECT {name}, n / 1000 + {first_seq}, 'agent_stop', '{status}' || n, '{status}', '2026-01-01T00:00:00.000000Z',
            {ended}, '{{}}'
        FROM {numbers.format(total)}"""


def strands_sql(numbers: str, name: str, fill: Fill) -> str:
    held, waits = "n % 7 = 0", "n % 3 = 0"
    return f"""INSERT INTO hook_strand
        (session_id, next_seq, head_seq, open_count, due_at, lease_until, holder, held_seq, held_count, token)
        SELECT {name}, {fill.head + fill.pending}, {fill.head}, {fill.pending},
            CASE WHEN {held} THEN NULL WHEN {waits} THEN '2026-07-01T00:00:00.000000Z'{{0}}
                 ELSE '2026-05-01T00:00:00.000000Z'{{0}} END,
            CASE WHEN {held} THEN '2026-06-01T00:04:00.000000Z'{{0}} END,
            CASE WHEN {held} THEN 'here' END, {fill.head}, 1, 5
        FROM {numbers.format(SESSIONS)}"""


def fill_up(database: Filled, fill: Fill, *, postgres: bool) -> None:
    """The dead come first, then the delivered, a few of them of late, then those that wait."""
    if postgres:
        numbers, name, cast = (
            "generate_series(0, {} - 1) AS n",
            "'s' || lpad((n % 1000)::text, 4, '0')",
            "::timestamptz",
        )
        database.run("TRUNCATE hook_outbox, hook_strand")
        database.run("ALTER SEQUENCE hook_outbox_id RESTART")
    else:
        numbers, name, cast = _COUNTED, "printf('s%04d', n % 1000)", ""
        for table in ("hook_outbox", "hook_strand", "sqlite_sequence"):
            database.run(f"DELETE FROM {table}")
    for total, first, status in (
        (DEAD, 0, "dead"),
        (fill.delivered * SESSIONS, 1, "delivered"),
        (fill.pending * SESSIONS, fill.head, "pending"),
    ):
        sql = rows_sql(numbers, name, total, first, status)
        database.run(sql.replace(".000000Z'", f".000000Z'{cast}"))
    late = f"'2026-05-31T00:00:00.000000Z'{cast}"
    last = DEAD + fill.delivered * SESSIONS
    database.run(f"UPDATE hook_outbox SET delivered_at = {late} WHERE id > {last - 100} AND id <= {last}")
    database.run(strands_sql(numbers, name, fill).format(cast))
    database.run(f"INSERT INTO hook_strand (session_id, next_seq) SELECT 'idle' || n, 1 FROM {numbers.format(IDLE)}")


def looks_at(fill: Fill) -> dict[str, tuple[str, Statement]]:
    """Each query as it is asked, and the index it is written for."""
    keys = [session(number) for number in range(1, AT_ONCE + 1)]
    heads = [(key, fill.head) for key in keys]
    stretches = [(key, fill.head, fill.head + LOOK - 1) for key in keys]
    # Ids of the pending rows come after those of the dead and the delivered ones.
    ids = [DEAD + fill.delivered * SESSIONS + number for number in range(1, AT_ONCE + 1)]
    order, due, lease, strand = "idx_hook_outbox_order", "idx_hook_strand_due", "idx_hook_strand_lease", "primary key"
    hold = {"holder": "here", "now": NOW, "lease_until": NOW}
    settled = [(row, "delivered", NOW, None, None, 1) for row in ids]
    settled_strands = [(key, fill.head + 1, NOW, 1, 1, 0) for key in keys]
    return {
        "due_strands": (due, queries.due_strands(now=NOW, limit=AT_ONCE)),
        "waiting": (due, waiting.pipes()),
        "lone.take": (due, lone.take(limit=8, **hold)),
        "lone.rows_taken": (lease, lone.rows_taken(**hold)),
        "lone.taken": (lease, lone.taken(**hold)),
        "offers.handed": (lease, offers.handed(holder="here#1", now=NOW, lease_until=NOW)),
        "lone_heads": (order, queries.lone_heads(now=NOW, limit=8)),
        "heads": (order, queries.heads(rows=stretches, small=4096)),
        "window": (order, queries.window(rows=stretches)),
        "supersede": ("primary key", queries.supersede(rows=[(row, row + 1, "tool_use") for row in ids], now=NOW)),
        "take_rows": ("primary key", queries.take_rows(ids=ids)),
        "overdue": (lease, leases.overdue(now=NOW, limit=500)),
        "overlong": (lease, leases.overlong(horizon=NOW)),
        "cut_leases": (lease, leases.cut_leases(horizon=NOW, lease_until=NOW)),
        "outlived": (order, queries.outlived(rows=heads, deaths=3)),
        "rescue_rows": (order, queries.rescue_rows(rows=heads, now=NOW, deaths=3, later=NOW)),
        "rescue_behind": (order, queries.rescue_behind(rows=heads, now=NOW)),
        "settle_rows": ("primary key", queries.settle_rows(rows=settled)),
        "deliver_rows": ("primary key", queries.deliver_rows(ids=ids, now=NOW)),
        "open_rows": (order, queries.open_rows(rows=heads)),
        "first_open": (order, queries.first_open(session_id=session(1), seq=fill.delivered)),
        "settle_strands": (strand, queries.settle_strands(rows=settled_strands, now=NOW)),
        "held_by": (order, queries.held_by(holder="here")),
        "earliest_due": (due, queries.earliest_due()),
        "earliest_lease": (lease, leases.earliest_lease()),
        "by_keys": ("idx_hook_outbox_key", queries.by_keys(keys=[f"pending{number}" for number in range(AT_ONCE)])),
        "list": ("primary key", queries.list(after=0, status="", limit=100)),
        "list_open": (order, queries.list_open(after=0, status="pending", limit=100)),
        "list_open_failed": (order, queries.list_open(after=0, status="failed", limit=100)),
        "list_open_held": (order, queries.list_open(after=0, status="processing", limit=100)),
        "list_dead": ("idx_hook_outbox_dead", queries.list_dead(after=0, limit=100)),
        "count_dead": ("idx_hook_outbox_dead", queries.count_dead()),
        "list_session": (order, queries.list_session(session_id=session(1), after=0, status="", limit=1)),
        "oldest": (order, queries.oldest()),
        "delivered_since": ("idx_hook_outbox_delivered", queries.delivered_since(since=LONG_AGO, limit=20_000)),
        "delivered": ("primary key", queries.delivered(ids=ids)),
        "oldest_rows": ("primary key", queries.oldest_rows(after=0, limit=100)),
        "prune": ("primary key", queries.prune(ids=list(range(1, AT_ONCE + 1)))),
        "get": ("primary key", queries.get(id=ids[0])),
        "log": ("primary key", stretch("pipe:hooks", NOW, before=2**62, floor=0)),
        "log_by_type_to": ("primary key", end_of_stretch("pipe:hooks type:x", NOW, before=2**62)),
        "log_dead": ("idx_hook_outbox_dead", stretch("status:dead", NOW, before=2**62, floor=0)),
        "log_failing": (order, stretch("pipe:hooks status:failed", NOW, before=2**62, floor=0)),
        "stuck": (order, attention.stuck_hooks(before=NOW, most=1000)),
        "stuck_longest": ("idx_hook_strand_failing_since", attention.stuck_hooks(before=NOW, most=1000)),
        "heads_after": ("idx_hook_strand_failing", seeking.hooks_heads(after="", most=1)),
        "dead": ("idx_hook_outbox_dead", attention.dead(most=100)),
    }


NAMES = tuple(looks_at(SMALL))


@dataclass(slots=True)
class Report:
    """What each query did with little in the table, with much, and once the planner had counted it."""

    small: dict[str, Look]
    large: dict[str, Look]
    counted: dict[str, Look]


def measure(database: Filled, *, postgres: bool) -> Report:
    for migration in migrations("postgres" if postgres else "sqlite"):
        for query in migration.statements:
            database.run(query.postgres if postgres else query.sqlite)
    if postgres:
        for setting, value in _PLANNING.items():
            database.run(f"SET {setting} = {value}")
        for table in ("hook_outbox", "hook_strand"):
            database.run(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    fill_up(database, SMALL, postgres=postgres)
    with_little = look_at_all(database, SMALL)
    fill_up(database, LARGE, postgres=postgres)
    with_much = look_at_all(database, LARGE)
    database.run("ANALYZE")
    return Report(with_little, with_much, look_at_all(database, LARGE))


def look_at_all(database: Filled, fill: Fill) -> dict[str, Look]:
    # Twice, because the first look also pays for what the fill left to tidy up.
    for _ in range(2):
        found = {name: database.look(statement) for name, (_, statement) in looks_at(fill).items()}
    return found


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    if request.param == "sqlite":
        path: Path = tmp_path_factory.mktemp("plans") / "plans.db"
        yield measure(FilledSqlite(str(path)), postgres=False)
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = f"plans_{uuid.uuid4().hex}"
    database = FilledPostgres(server.create_database(name))
    yield measure(database, postgres=True)
    database.connection.close()
    server.drop_database(name)


@pytest.mark.parametrize("name", NAMES)
def test_it_uses_the_index_it_was_written_for(report: Report, name: str) -> None:
    index, _ = looks_at(SMALL)[name]
    for look in (report.large[name], report.counted[name]):
        used = {"primary key" if used.endswith("_pkey") or "autoindex" in used else used for used in look.indexes}
        assert index in used
        assert "hook_outbox" not in look.scanned
        assert "q" not in look.scanned


@pytest.mark.parametrize("name", NAMES)
def test_it_costs_the_same_whatever_was_delivered(report: Report, name: str) -> None:
    """An index grows by a level now and then, which each row of a set pays for; what waits may be looked through."""
    _, statement = looks_at(SMALL)[name]
    rows = max((len(value) for value in statement.params.values() if isinstance(value, list)), default=1)
    allowed = 2 * report.small[name].cost + 6 * max(rows, 1) + SMALL.pending
    assert report.large[name].cost <= allowed
    assert report.counted[name].cost <= allowed
