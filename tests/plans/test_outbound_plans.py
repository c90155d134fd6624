"""No look at the outbound queue costs more because much is scheduled for later or was sent before."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pillarbox.outbound import forgetting, reading
from pillarbox.outbound.lane import queries
from pillarbox.storage import Statement, load_queries
from pillarbox.storage.migrate import migrations
from pillarbox.storage.postgres_url import _PLANNING
from tests.plans.log_looks import end_of_stretch, stretch
from tests.plans.looks import Filled, FilledPostgres, FilledSqlite, Look
from tests.servers.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

attention = load_queries("pillarbox.operators", "attention.sql")

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
TENANTS = 1000
READY = 2000
SENDING = 50
FAILED = 20_000
AT_ONCE = 64
PAST_ALL = "no index"
TABLES = ("message_queue", "message_history", "message_attempt", "message_copy", "message_opt_out", "idempotency_key")

_COUNTED = "(WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < {}) SELECT n FROM c)"
_PAST, _FUTURE, _SOON = "2026-05-01T00:00:00.000000Z", "2027-01-01T00:00:00.000000Z", "2026-06-01T00:00:30.000000Z"


@dataclass(frozen=True, slots=True)
class Fill:
    """How many messages are scheduled for later, and how many have ended."""

    scheduled: int
    ended: int


SMALL = Fill(scheduled=2000, ended=2000)
LARGE = Fill(scheduled=200_000, ended=200_000)


def tenant(number: int) -> str:
    return f"t{number:03}"


def name(kind: str, number: int) -> str:
    return f"{kind}{number:09}"


def names(kind: str, count: int = AT_ONCE) -> list[str]:
    return [name(kind, number) for number in range(count)]


class Filler:
    """Writes the rows of a fill in one database's words."""

    def __init__(self, database: Filled, *, postgres: bool) -> None:
        self._run = database.run
        self._postgres = postgres

    def fill(self, fill: Fill) -> None:
        for table in (*TABLES, "tenants"):
            self._run(f"TRUNCATE {table}" if self._postgres else f"DELETE FROM {table}")
        self._run(
            f"""INSERT INTO tenants (tenant_id, providers, settings, rate_per_minute, rate_until, created_at, updated_at)
            SELECT {self._padded("t", 3)}, '{{}}', '{{}}', CASE WHEN n % 3 = 0 THEN 60 END, {self._at(_PAST)}, {self._at(_PAST)},
                {self._at(_PAST)} FROM {self._numbers(TENANTS)}"""
        )
        self._queue("r", "ready", READY, _PAST)
        self._queue("p", "sending", SENDING, _PAST)
        self._queue("s", "scheduled", fill.scheduled, _FUTURE)
        for kind, count, status in (
            ("r", READY, "pending"),
            ("p", SENDING, "pending"),
            ("s", fill.scheduled, "pending"),
            ("e", fill.ended, "sent"),
            ("f", FAILED, "failed"),
        ):
            self._history(kind, count, status)
        self._beside("e", fill.ended)

    def _queue(self, kind: str, state: str, count: int, due: str) -> None:
        held = state == "sending"
        self._run(
            f"""INSERT INTO message_queue (message_id, tenant_id, channel, state, priority, next_attempt_at, expires_at,
                last_attempt, contacts, claimed_at, lease_until, holder)
            SELECT {self._padded(kind, 9)}, {self._tenant()}, 'email', '{state}', 100, {self._at(due)},
                CASE WHEN n % 2 = 0 THEN {self._at(_FUTURE)} END, 5, '["c"]',
                {self._at(_PAST) if held else "NULL"}, {self._at(_SOON) if held else "NULL"}, {"'here'" if held else "NULL"}
            FROM {self._numbers(count)}"""
        )

    def _history(self, kind: str, count: int, status: str) -> None:
        self._run(
            f"""INSERT INTO message_history (message_id, tenant_id, channel, status, max_attempts, priority, category, contact,
                to_address, tags, created_at, updated_at, options, failed_at)
            SELECT {self._padded(kind, 9)}, {self._tenant()}, 'email', '{status}', 5, 100, 'transactional', 'c' || n, 'a', '[]',
                {self._at(_PAST)}, {self._at(_PAST)}, '{{}}', {self._at(_PAST) if status == "failed" else "NULL"}
            FROM {self._numbers(count)}"""
        )

    def _beside(self, kind: str, count: int) -> None:
        """What belongs to messages that have ended, and opt-outs and keys as many."""
        numbers, message, at = self._numbers(count), self._padded(kind, 9), self._at(_PAST)
        self._run(
            f"""INSERT INTO message_attempt (message_id, attempt, started_at, finished_at, outcome)
            SELECT {message}, 1, {at}, {at}, 'accepted' FROM {numbers}"""
        )
        self._run(f"INSERT INTO message_copy SELECT {self._tenant()}, 'x' || n, {message} FROM {numbers}")
        self._run(
            f"""INSERT INTO message_opt_out (opt_out_id, tenant_id, contact, channel, created_at)
            SELECT {message}, {self._tenant()}, 'o' || n, 'all', {at} FROM {numbers}"""
        )
        self._run(
            f"""INSERT INTO idempotency_key SELECT {self._tenant()}, 'k' || n, 'f', {message}, 'pending', {at}
            FROM {numbers}"""
        )

    def _numbers(self, count: int) -> str:
        return f"generate_series(0, {count} - 1) AS n" if self._postgres else _COUNTED.format(count)

    def _padded(self, prefix: str, digits: int, number: str = "n") -> str:
        if self._postgres:
            return f"'{prefix}' || lpad(({number})::text, {digits}, '0')"
        return f"printf('{prefix}%0{digits}d', {number})"

    def _tenant(self) -> str:
        return self._padded("t", 3, f"n % {TENANTS}")

    def _at(self, instant: str) -> str:
        return f"'{instant}'::timestamptz" if self._postgres else f"'{instant}'"


def looks() -> dict[str, tuple[str, Statement]]:
    """Each query as it is asked, and the index it is written for."""
    ready, sending, key = "idx_message_queue_ready", names("p", SENDING), "primary key"
    lease, due, expiry = "idx_message_queue_lease", "idx_message_queue_scheduled", "idx_message_queue_expiry"
    of_tenant, trouble = "idx_message_history_tenant", "idx_message_history_trouble"
    chosen = [tenant(number) for number in range(AT_ONCE)]
    held = [(message, 0) for message in sending]
    tried = [(message, 1, NOW, "transient", 503, "x", "late", "POST x", "503") for message in sending]
    sent = [(message, "sent", 1, NOW, "x", None) for message in sending]
    unsent = [(message, "retrying", 1, NOW, NOW, None, "late", "x") for message in sending]
    listed = {"channel": "", "contact": "", "since": "", "until": "", "tag": "", "before": "g", "limit": 100}
    return {
        "overdue": (lease, queries.overdue(now=NOW, limit=500)),
        "expired": (expiry, queries.expired(now=NOW, limit=500)),
        "promote": (due, queries.promote(now=NOW, limit=1000)),
        "ready_tenants": (ready, queries.ready_tenants(after="", steps=AT_ONCE, default_rate=0)),
        "ready_tenants_later": (ready, queries.ready_tenants(after=tenant(900), steps=AT_ONCE, default_rate=0)),
        "share_tenants": (key, queries.share_tenants(tenant_ids=chosen, default_rate=0)),
        "hold_capped_tenants": (key, queries.hold_capped_tenants(tenant_ids=chosen, default_rate=0)),
        "hold_against_opt_outs": (key, queries.hold_against_opt_outs(tenant_ids=chosen)),
        "begin": (key, queries.begin(rows=held, now=NOW)),
        "ready": (ready, queries.ready(tenant_ids=chosen, each=2)),
        "ready_of_one": (ready, queries.ready(tenant_ids=chosen[:1], each=AT_ONCE)),
        "opted_out": ("idx_message_opt_out_contact", queries.opted_out(rows=[(each, "o1") for each in chosen])),
        "contents": (key, queries.contents(message_ids=names("r"))),
        "take": (key, queries.take(message_ids=names("r"), now=NOW, lease_until=NOW, holder="here")),
        "put_off": (key, queries.put_off(message_ids=names("r"), at=NOW)),
        "known_past_the_index": (PAST_ALL, queries.known_past_the_index(tenant_ids=chosen)),
        "count_sends": (key, queries.count_sends(rows=[(each, NOW) for each in chosen])),
        "renew": (key, queries.renew(rows=held, lease_until=NOW)),
        "held": (key, queries.held(rows=held)),
        "held_by": (lease, queries.held_by(holder="here")),
        "hold": (key, queries.hold(rows=held)),
        "remove": (key, queries.remove(message_ids=sending)),
        "reschedule": (key, queries.reschedule(rows=[(message, NOW, 0, 5) for message in sending], now=NOW)),
        "insert_attempts": (key, queries.insert_attempts(rows=tried, now=NOW)),
        "settle_accepted": (key, queries.settle_accepted(rows=sent, now=NOW)),
        "settle_history": (key, queries.settle_history(rows=unsent, now=NOW)),
        "postpone_history": (key, queries.postpone_history(rows=[(each, NOW) for each in sending])),
        "end_history": (key, queries.end_history(rows=[(each, "expired", "late") for each in sending], now=NOW)),
        "sending_to": (lease, queries.sending_to(tenant_id=tenant(1))),
        "earliest_due": (due, queries.earliest_due()),
        "earliest_lease": (lease, queries.earliest_lease()),
        "earliest_expiry": (expiry, queries.earliest_expiry()),
        "any_ready": (ready, queries.any_ready()),
        "holders": (lease, queries.holders()),
        "end_leases": (lease, queries.end_leases(holders=["here"], now=NOW)),
        "overlong": (lease, queries.overlong(horizon=NOW)),
        "cut_leases": (lease, queries.cut_leases(horizon=NOW, lease_until=NOW)),
        "by_idempotency_keys": (key, queries.by_idempotency_keys(rows=[(each, "k1") for each in chosen])),
        "prune_idempotency_keys": ("idx_idempotency_key_age", queries.prune_idempotency_keys(before=NOW, limit=100)),
        "oldest_messages": (key, queries.oldest_messages(after="", limit=100)),
        "prune_history": (key, queries.prune_history(message_ids=names("e"))),
        "prune_attempts": (key, queries.prune_attempts(message_ids=names("e"))),
        "remove_copies": ("idx_message_copy_message", queries.remove_copies(message_ids=names("e"))),
        "copies": ("idx_message_copy_message", queries.copies(message_id=name("e", 1))),
        "get": (key, reading.queries.get(message_id=name("s", 7), tenant_id="")),
        "list_messages": (
            of_tenant,
            reading.queries.list_messages(tenant_id=tenant(1), status="", **{**listed, "limit": 2}),
        ),
        "list_all": (key, reading.queries.list_all(tenant_id="", status="", **listed)),
        "list_trouble": (trouble, reading.queries.list_trouble(tenant_id=tenant(1), status="failed", **listed)),
        "messages_of_contact": (
            "idx_message_history_contact",
            forgetting.queries.messages_of_contact(tenant_id=tenant(1), contact="c1", limit=100),
        ),
    } | log_looks()


def log_looks() -> dict[str, tuple[str, Statement]]:
    """The same of the log and of what needs attention."""
    top, some = name("s", 500), {"before": name("s", 500), "floor": name("s", 0)}
    unsent, of_tenant = "idx_message_history_unsent", "idx_message_history_tenant"
    trouble, failed = "idx_message_history_trouble", "idx_message_history_failed"
    return {
        "log": ("primary key", stretch("pipe:outbound", NOW, before="g", floor="")),
        "log_by_error": ("primary key", stretch("error:x", NOW, **some)),
        "log_by_error_to": ("primary key", end_of_stretch("error:x", NOW, before=top)),
        "log_of_tenant": (of_tenant, stretch("tenant:t001 tag:x", NOW, before="g", floor=name("s", 0))),
        "log_unsent": (unsent, stretch("status:failed", NOW, before="g", floor="")),
        "log_unsent_to": (unsent, end_of_stretch("status:failed", NOW, before="g")),
        "log_unsent_of_tenant": (trouble, stretch("status:failed tenant:t001", NOW, before="g", floor="")),
        "log_queued": ("primary key", stretch("status:retrying", NOW, **some)),
        "log_queued_to": ("primary key", end_of_stretch("status:retrying", NOW, before=top)),
        "log_to": ("idx_message_history_contact", stretch("tenant:t001 to:c1", NOW, before="g", floor="")),
        "log_by_id": ("primary key", stretch(f"id:{name('s', 7)}", NOW, before="g", floor="")),
        "failed_lately": (failed, attention.failed(since=LONG_AGO, most=1000)),
        "failing": (failed, attention.failing(since=LONG_AGO, most=1000)),
        "retrying": ("idx_message_queue_tried", attention.retrying(since=LONG_AGO, most=1000)),
        "accepted": (of_tenant, attention.accepted(tenant_id=tenant(1), most=2)),
    }


NAMES = tuple(looks())


@dataclass(slots=True)
class Report:
    """What each query did with little in the tables, with much, and once the planner had counted it."""

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
        for table in (*TABLES, "tenants"):
            database.run(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
    filler = Filler(database, postgres=postgres)
    filler.fill(SMALL)
    with_little = look_at_all(database)
    filler.fill(LARGE)
    with_much = look_at_all(database)
    database.run("ANALYZE")
    return Report(with_little, with_much, look_at_all(database))


def look_at_all(database: Filled) -> dict[str, Look]:
    # Twice, because the first look also pays for what the fill left to tidy up.
    for _ in range(2):
        found = {name: database.look(statement) for name, (_, statement) in looks().items()}
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
    index, _ = looks()[name]
    for look in (report.large[name], report.counted[name]):
        used = {_known(index_used) for index_used in look.indexes}
        # What is held is found by its lease as well as by its name.
        assert index in (*used, PAST_ALL) or (name in ("held", "hold") and "idx_message_queue_lease" in used)
        assert not look.scanned & {*TABLES, "q", "h", "m", "k", "o"}


@pytest.mark.parametrize("name", NAMES)
def test_it_costs_the_same_whatever_is_scheduled_or_was_sent(report: Report, name: str) -> None:
    """An index grows by a level now and then, which each row of a set pays for."""
    _, statement = looks()[name]
    rows = max((len(value) for value in statement.params.values() if isinstance(value, list)), default=1)
    allowed = 2 * report.small[name].cost + 8 * max(rows, 1) + 50
    assert report.large[name].cost <= allowed
    assert report.counted[name].cost <= allowed


def _known(index: str) -> str:
    return "primary key" if index.endswith("_pkey") or "autoindex" in index or index == "PRIMARY" else index
