import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pytest
from hypothesis import settings

from tests.servers.postgres import Postgres, PostgresServer, ServerMissing, migrated_template, shared_postgres
from tests.servers.rabbitmq import RabbitServer, shared_rabbitmq

SCRATCH = "PILLARBOX_TEST_SCRATCH"
MEMORY_WANTED = 8 * 2**30

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    _heed_signals()
    if not hasattr(config, "workerinput"):
        scratch = tempfile.mkdtemp(prefix="pillarbox-tests-", dir=_roomy_memory())
        Path(scratch).chmod(0o755)
        os.environ[SCRATCH] = scratch
        config.option.basetemp = config.option.basetemp or str(Path(scratch, "tests"))


def _heed_signals() -> None:
    """Whoever runs the tests in a shell's background ignores some, and so would every program that they start."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def _roomy_memory() -> str | None:
    """A file system in memory, where there is a large one: hundreds of databases are made and dropped."""
    memory = Path("/dev", "shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_WANTED
    return str(memory) if roomy else None


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        scratch = Path(os.environ.pop(SCRATCH))
        server = PostgresServer(scratch / "postgres")
        if server.running:
            server.stop("immediate")
        RabbitServer(scratch / "rabbitmq").stop()
        shutil.rmtree(scratch, ignore_errors=True)


@pytest.fixture(scope="session")
def scratch() -> Path:
    """A folder all workers of this run share, and that every user may enter."""
    return Path(os.environ[SCRATCH])


@pytest.fixture(scope="session")
def postgres(scratch: Path) -> Postgres:
    try:
        return shared_postgres(scratch)
    except ServerMissing as missing:
        skip_or_fail(missing)


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres, scratch: Path) -> str:
    return migrated_template(postgres, scratch)


@pytest.fixture
def postgres_url(postgres: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with our schema and nothing in it; without a schema for tests marked `empty_database`."""
    name = f"pillarbox_{uuid.uuid4().hex}"
    empty = request.node.get_closest_marker("empty_database")
    template = "template0" if empty else request.getfixturevalue("postgres_template")
    yield postgres.create_database(name, template=template)
    postgres.drop_database(name)


@pytest.fixture
def private_postgres(scratch: Path) -> Iterator[PostgresServer]:
    """A server of the test's own, started, to stop, crash and restart."""
    directory = scratch / f"postgres-{uuid.uuid4().hex}"
    server = PostgresServer(directory)
    try:
        yield server.start()
    except ServerMissing as missing:
        skip_or_fail(missing)
    finally:
        if server.running:
            server.stop("immediate")
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def rabbitmq_url(scratch: Path) -> str:
    try:
        return shared_rabbitmq(scratch)
    except ServerMissing as missing:
        skip_or_fail(missing)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'pillarbox.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


def skip_or_fail(missing: ServerMissing) -> Never:
    if os.environ.get("CI"):
        pytest.fail(str(missing))
    pytest.skip(str(missing))
