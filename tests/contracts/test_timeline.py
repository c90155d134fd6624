"""The timeline of a PostgreSQL server whose clock is set while nodes are looking."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from pillarbox.storage.timeline import CREATE_TIMELINE, Timeline, server_offset

HOUR = 3600.0


class SteppedServer:
    """A real server whose clock was set by so many seconds."""

    def __init__(self) -> None:
        self.set_by = 0.0

    def measure(self, connection: psycopg.Connection[tuple[object, ...]]) -> float:
        return server_offset(connection) + self.set_by


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(CREATE_TIMELINE)
        yield connection


def seconds_apart(one: Timeline, other: Timeline) -> float:
    return abs((one.clock.now() - other.clock.now()).total_seconds())


@pytest.mark.parametrize("step", [HOUR, -HOUR, 30 * 24 * HOUR, -2.0])
def test_a_step_of_the_servers_clock_moves_no_node_and_parts_none(
    connection: psycopg.Connection[tuple[object, ...]], step: float
) -> None:
    server = SteppedServer()
    first, second = (Timeline(connection, measure=server.measure) for _ in range(2))
    before = first.clock.now()
    server.set_by = step
    for node in (first, second, first):
        node.tend(connection)
    later = Timeline(connection, measure=server.measure)
    assert timedelta(0) <= first.clock.now() - before < timedelta(seconds=30)
    assert seconds_apart(first, second) < 0.5
    assert seconds_apart(first, later) < 0.5


def test_a_node_that_starts_between_the_step_and_its_correction_comes_back_to_the_others(
    connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    server = SteppedServer()
    old = Timeline(connection, measure=server.measure)
    server.set_by = HOUR
    new = Timeline(connection, measure=server.measure)
    assert seconds_apart(old, new) > HOUR - 1
    old.tend(connection)
    new.tend(connection)
    assert seconds_apart(old, new) < 0.5


def test_instants_are_shown_as_the_server_tells_the_time_today(
    connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    server = SteppedServer()
    node = Timeline(connection, measure=server.measure)
    stored = node.clock.now()
    server.set_by = HOUR
    node.tend(connection)
    assert abs((node.clock.shown(stored) - stored).total_seconds() - HOUR) < 1
    assert abs((node.clock.stored(node.clock.shown(stored)) - stored).total_seconds()) < 1


def test_drift_is_followed(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    server = SteppedServer()
    node = Timeline(connection, measure=server.measure)
    before = node.clock.offset
    server.set_by = 0.4
    node.tend(connection)
    assert 0.3 < node.clock.offset - before < 0.5
