"""A strand in flight: stopped in time, and never begun where that comes first."""

import asyncio

import pytest

from pillarbox.engine import Strand
from pillarbox.engine.flight import Flight
from tests.engine.scripted import Row, strand


def flight_of(held: Strand[Row]) -> Flight[Row]:
    return Flight(held, deadline=20.0, lease_ends=30.0)


async def test_a_flight_is_lost_from_the_moment_its_lease_ends() -> None:
    flight = flight_of(strand("a", 1))
    assert not flight.is_lost(29.999)
    assert flight.is_lost(30.0)


async def test_what_is_lost_from_a_thread_is_stopped_on_its_loop() -> None:
    flight = flight_of(strand("a", 1))
    flight.task = asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    await asyncio.to_thread(flight.lose)
    with pytest.raises(asyncio.CancelledError):
        await flight.task
    assert flight.lost
    assert flight.is_lost(0.0)


async def test_what_is_lost_twice_is_stopped_once() -> None:
    flight = flight_of(strand("a", 1))
    flight.task = asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    flight.lose_now()
    flight.lose_now()
    assert flight.task.cancelling() == 1


def test_losing_a_flight_whose_loop_has_ended_harms_nobody() -> None:
    async def begin() -> Flight[Row]:
        return flight_of(strand("a", 1))

    flight = asyncio.run(begin())
    flight.lose()
    assert not flight.lost


async def test_what_is_called_off_before_it_has_a_task_is_remembered() -> None:
    flight = flight_of(strand("a", 1))
    assert not flight.called_off
    flight.call_off()
    assert flight.called_off is True


async def test_being_late_is_told_once_and_leaves_the_task_as_it_was() -> None:
    flight = flight_of(strand("a", 1))
    assert flight.was_late() is False
    flight.task = asyncio.create_task(asyncio.sleep(600))
    await asyncio.sleep(0)
    flight.be_late()
    assert flight.task.cancelling() == 1
    assert flight.was_late() is True
    assert flight.task.cancelling() == 0
    assert flight.was_late() is False
    flight.task.cancel()
