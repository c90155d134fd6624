import psycopg
import pytest

from tests.servers.postgres import Postgres, PostgresServer


@pytest.mark.empty_database
def test_a_test_that_asks_for_it_gets_an_empty_database(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert row == (0,)


def test_each_other_test_gets_our_schema_with_nothing_in_it(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM inbound_queue").fetchone() == (0,)


def test_a_dropped_database_is_gone_even_while_someone_is_connected(postgres: Postgres) -> None:
    url = postgres.create_database("dropped")
    with psycopg.connect(url) as connection:
        postgres.drop_database("dropped")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_a_commit_survives_the_crash_of_the_server(private_postgres: PostgresServer) -> None:
    url = private_postgres.url
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    private_postgres.restart("immediate")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
