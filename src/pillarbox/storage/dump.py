"""A backup of a PostgreSQL database that is in use, made by the server's own `pg_dump`: one state of it, whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from pillarbox.errors import InvalidInput, Refused, Unavailable
from pillarbox.storage.backup import Backup, require_free, sync, unfinished
from pillarbox.storage.postgres_url import PostgresAddress

_LONGEST_REASON = 300
_SECRETS = ("password", "sslpassword")
_SERVICE = "pillarbox"


def dump(url: str, target: str) -> Backup:
    """Have the whole database dumped to a file in pg_dump's own format; it has its name only when it is whole and on disk."""
    require_postgres("database", url)
    address, place = PostgresAddress.parse(url), Path(target)
    if address.pooled:
        raise InvalidInput("database", "is behind a transaction pooler; give the address of the server itself.")
    require_free(place)
    program = shutil.which("pg_dump")
    if program is None:
        shown = f"pg_dump --format=custom --file={target} '{without_password(address.conninfo)[0]}'"
        raise Refused(f"pg_dump is not installed here; install PostgreSQL's client, or run `{shown}` elsewhere.")
    with unfinished(place) as copy:
        _run(program, address, copy)
        sync(copy)
        os.link(copy, place)
    sync(place.parent)
    return Backup(str(place), place.stat().st_size, None)


def require_postgres(field: str, url: str) -> None:
    """Refuse the address of anything that PostgreSQL's own tools do not speak to."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidInput(field, "must be postgresql://...; other servers have tools of their own.")


def without_password(conninfo: str) -> tuple[str, dict[str, str]]:
    """A connection URL that may be shown, and the passwords that were in it, by libpq's names."""
    parts = urlsplit(conninfo)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    secrets = {name: given.pop(name) for name in _SECRETS if name in given}
    if parts.password:
        secrets["password"] = unquote(parts.password)
    user = f"{parts.netloc.rpartition('@')[0].partition(':')[0]}@" if "@" in parts.netloc else ""
    bare = parts._replace(netloc=user + parts.netloc.rpartition("@")[2], query=urlencode(given, quote_via=quote))
    return urlunsplit(bare), secrets


def _run(program: str, address: PostgresAddress, copy: Path) -> None:
    shown, secrets = without_password(address.conninfo)
    with _secretly(shown, secrets) as environment:
        done = subprocess.run(  # noqa: S603 - never a shell
            [program, "--format=custom", "--no-password", f"--file={copy}", f"--dbname={shown}"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split())[:_LONGEST_REASON]
        raise Unavailable(f"pg_dump did not finish: {reason}")


@contextmanager
def _secretly(shown: str, secrets: dict[str, str]) -> Iterator[dict[str, str]]:
    """An environment that tells libpq the passwords; not by arguments, which every user of the machine can read."""
    environment = dict(os.environ)
    if "password" in secrets:
        environment["PGPASSWORD"] = secrets["password"]
    if "sslpassword" not in secrets:
        yield environment
        return
    # libpq has no variable for this one, but reads it from a file of services.
    if "PGSERVICE" in environment or "service" in dict(parse_qsl(urlsplit(shown).query)):
        raise InvalidInput("database", "has both a service and sslpassword; write sslpassword into the service's file.")
    if secrets["sslpassword"] != "".join(secrets["sslpassword"].split()):
        raise InvalidInput("database", "has an sslpassword with a space in it, which pg_dump cannot be told.")
    with tempfile.NamedTemporaryFile("w", prefix="pillarbox-", encoding="utf-8") as services:
        services.write(f"[{_SERVICE}]\nsslpassword={secrets['sslpassword']}\n")
        services.flush()
        yield environment | {"PGSERVICEFILE": services.name, "PGSERVICE": _SERVICE}
