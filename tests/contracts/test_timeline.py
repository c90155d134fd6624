"""The timeline of a PostgreSQL server whose clock is set while nodes are looking."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from pillarbox.storage.timeline import CREATE_TIMELINE, Measured, Timeline, nearest, server_offset

HOUR = 3600.0


class SteppedServer:
    """A real server whose clock was set by so many seconds."""

    def __init__(self) -> None:
        self.set_by = 0.0
        self.held_up = 0.0

    def measure(self, connection: psycopg.Connection[tuple[object, ...]]) -> Measured:
        found = server_offset(connection)
        return Measured(found.offset + self.set_by + self.held_up / 2, found.error + self.held_up / 2)


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


@pytest.mark.parametrize("seconds", [0.5, 3.0, 30.0])
def test_a_node_that_is_held_up_while_it_measures_moves_nobodys_time(
    connection: psycopg.Connection[tuple[object, ...]], seconds: float
) -> None:
    server = SteppedServer()
    held_up, other = (Timeline(connection, measure=server.measure) for _ in range(2))
    server.held_up = seconds
    held_up.tend(connection)
    server.held_up = 0.0
    other.tend(connection)
    assert seconds_apart(held_up, other) < 0.1
    assert seconds_apart(other, Timeline(connection, measure=server.measure)) < 0.1


def test_a_node_that_was_held_up_as_it_started_comes_to_the_others_and_not_they_to_it(
    connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    server = SteppedServer()
    other = Timeline(connection, measure=server.measure)
    before = other.clock.offset
    server.held_up = 30.0
    late = Timeline(connection, measure=server.measure)
    server.held_up = 0.0
    for node in (late, other):
        node.tend(connection)
    assert abs(late.clock.offset - before) < 0.1
    assert abs(other.clock.offset - before) < 0.1


def test_the_quickest_of_a_few_round_trips_counts() -> None:
    counter = iter([10.0, 40.0, 50.0, 50.001, *(60.0, 70.0) * 6])
    told = iter([1010.5, 1050.0005, *[1069.0] * 6])
    found = nearest(lambda: next(told), lambda: next(counter))
    assert found.offset == pytest.approx(1000.0)
    assert found.error == pytest.approx(0.0005)
