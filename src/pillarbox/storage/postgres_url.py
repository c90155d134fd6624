"""Where a PostgreSQL server is, how to connect to it, and which servers are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pillarbox.errors import InvalidInput, Unavailable, UnsafeDatabase


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """A connection URL without our own options, and whether a transaction pooler stands in between."""

    conninfo: str
    pooled: bool

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        pooler = options.pop("pooler", None)
        if pooler not in (None, "transaction", "session"):
            raise InvalidInput("database", "pooler must be `transaction` or `session`.")
        # libpq takes a plus sign for a plus sign.
        bare = parts._replace(scheme="postgresql", query=urlencode(options, quote_via=quote))
        return cls(urlunsplit(bare), pooler == "transaction")

    @property
    def place(self) -> str:
        """Host and port, fit to be shown: no user, no password."""
        parts = urlsplit(self.conninfo)
        return parts.netloc.rpartition("@")[2] or "its local socket"


# The server must let go of what a process holds that is stopped, or whose machine is gone, long before it would by itself.
_ABSENCE = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
_IDLE_SHARE = 3
_LEAST_IDLE = 1000

# Every query lives on an index and its tables are hot; a table that was never analyzed must not talk the planner out of it.
# A set is planned anew each time: a plan for sets of any size was seen to be nine times slower.
_PLANNING = {"enable_seqscan": "off", "random_page_cost": "1.1", "plan_cache_mode": "force_custom_plan"}
# What is to be prepared says so; the driver prepares nothing of its own accord.
_ONLY_WHEN_TOLD = 2**31


def unreachable(address: PostgresAddress) -> Unavailable:
    """What to tell of a server that does not answer; never what the driver says, which may quote the URL."""
    return Unavailable(f"PostgreSQL cannot be reached at {address.place}; check the URL and that the server runs.")


def session_settings(statement_timeout: float, *, planning: bool) -> dict[str, str]:
    """What holds on every connection, whatever the server's own settings are; CockroachDB plans by itself."""
    milliseconds = int(statement_timeout * 1000)
    return {
        "synchronous_commit": "on",
        "TimeZone": "UTC",
        "statement_timeout": str(milliseconds),
        "idle_in_transaction_session_timeout": str(max(_LEAST_IDLE, milliseconds // _IDLE_SHARE)),
    } | (_PLANNING if planning else {})


def begin_of(address: PostgresAddress, statement_timeout: float, *, planning: bool) -> bytes:
    """How a transaction begins; behind a pooler it sets what else holds on every connection."""
    if not address.pooled:
        return b"BEGIN"
    settings = session_settings(statement_timeout, planning=planning)
    return "; ".join(["BEGIN", *(f"SET LOCAL {name} = '{value}'" for name, value in settings.items())]).encode()


def connect_options(address: PostgresAddress, statement_timeout: float, *, planning: bool = False) -> dict[str, Any]:
    """Autocommit, dead peers noticed in seconds, and statements prepared where a connection keeps them."""
    options = {
        "autocommit": True,
        "prepare_threshold": _ONLY_WHEN_TOLD if planning and not address.pooled else None,
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": int(statement_timeout * 1000),
        "application_name": "pillarbox",
    }
    if not address.pooled:
        # With the connection request, so that a new connection costs no round trip that nobody times.
        given = conninfo_to_dict(address.conninfo).get("options") or ""
        settings = session_settings(statement_timeout, planning=planning) | (_ABSENCE if planning else {})
        ours = (f"-c {name}={value}" for name, value in settings.items())
        options["options"] = " ".join([str(given), *ours]).strip()
    return options


def require_safe_server(connection: psycopg.Connection[Any], *, allow_unsafe: bool = False) -> bool:
    """Refuse a replica, and a server that does not write to disk unless that is allowed; answer whether this is CockroachDB."""
    version = _one(connection, "SELECT version()")
    if version.startswith("CockroachDB"):
        return True
    if _one(connection, "SELECT pg_is_in_recovery()"):
        raise UnsafeDatabase("This PostgreSQL server is a read-only replica; use the address of the primary.")
    for name in () if allow_unsafe else ("fsync", "full_page_writes"):
        if _one(connection, f"SHOW {name}") == "off":
            raise UnsafeDatabase(
                f"This PostgreSQL server runs with {name}=off and can lose messages; "
                "turn it on, or set database.allow_unsafe if they may be lost."
            )
    return False


def require_settings(connection: psycopg.Connection[Any], statement_timeout: float) -> None:
    """Refuse a pooler that drops what a connection asks for: its servers may have prepared something else by the same name."""
    settings = session_settings(statement_timeout, planning=False)
    # Not the time zone, which PGTZ may set without any harm.
    for name, value in settings.items() - {("TimeZone", settings["TimeZone"])}:
        if _one(connection, f"SELECT setting FROM pg_settings WHERE name = '{name}'") != value:
            raise UnsafeDatabase(
                f"A pooler before this PostgreSQL server drops our settings, such as {name}; "
                "add `pooler=transaction` to the options of the URL."
            )


def _one(connection: psycopg.Connection[Any], sql: str) -> Any:
    row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return row[0]
