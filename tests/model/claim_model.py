"""The claim protocol as a model small enough to look at every order in which things can happen.

Two workers drain one strand of two rows. A worker claims the strand under a new token, delivers its rows one after another,
and reports each to the store; a report, like an answer, may be on its way for as long as it likes. Time is one fact: whether
the lease of the present holder is over. A worker may crash at any step and come back empty, or freeze past its lease with
everything it holds in its hands and go on as if nothing had happened. Left out are renewal, deliveries that fail and are tried
again, and closing the strand; and the lease of a worker that neither froze nor crashed never ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

ROWS = 2
WORKERS = 2


class Worker(NamedTuple):
    """What one worker knows: the token it believes in, the row it is at, what it has to report."""

    token: int = 0
    at: int = 0
    delivering: bool = False
    report: int | None = None
    frozen: bool = False


class State(NamedTuple):
    """Everything there is at one moment; `history` is what the targets and the store saw, for the invariants."""

    head: int = 0
    token: int = 0
    holder: int | None = None
    lease_over: bool = False
    workers: tuple[Worker, ...] = (Worker(),) * WORKERS
    settled: tuple[int, ...] = ()
    delivered: tuple[int, ...] = ()
    crashes: int = 1
    freezes: int = 1


@dataclass(frozen=True, slots=True)
class Protocol:
    """What may be left out of the protocol, to see that it is needed."""

    fenced: bool = True
    one_holder: bool = True
    rescues: bool = True
    in_order: bool = True


Move = tuple[str, State]


def moves(state: State, protocol: Protocol) -> Iterator[Move]:
    """Everything that can happen next."""
    if state.holder is not None and not state.lease_over and state.workers[state.holder].frozen:
        yield "the lease runs out", state._replace(lease_over=True)
    if state.holder is not None and not state.lease_over and state.workers[state.holder].token != state.token:
        yield "the lease of a crashed worker runs out", state._replace(lease_over=True)
    for number, worker in enumerate(state.workers):
        yield from _moves_of(state, number, worker, protocol)


def _moves_of(state: State, number: int, worker: Worker, protocol: Protocol) -> Iterator[Move]:
    def become(after: Worker, **changes: object) -> State:
        workers = (*state.workers[:number], after, *state.workers[number + 1 :])
        return state._replace(workers=workers, **changes)  # type: ignore[arg-type]

    name = f"worker {number}"
    if worker.frozen:
        yield f"{name} goes on", become(worker._replace(frozen=False))
        return
    if worker.token and state.crashes:
        yield f"{name} crashes", become(Worker(), crashes=state.crashes - 1)
    if worker.token and state.freezes:
        yield f"{name} freezes", become(worker._replace(frozen=True), freezes=state.freezes - 1)
    if not worker.token and state.head < ROWS and _claimable(state, protocol):
        token = state.token + 1
        claimed = become(Worker(token, state.head), token=token, holder=number, lease_over=False)
        yield f"{name} claims under token {token}", claimed
    if worker.token and worker.report is None:
        yield from _delivery(name, worker, become, state, protocol)
    if worker.report is not None:
        yield f"{name} reports row {worker.report}", _settled(state, number, worker, become, protocol)


def _claimable(state: State, protocol: Protocol) -> bool:
    if state.holder is None or not protocol.one_holder:
        return True
    return protocol.rescues and state.lease_over


def _delivery(
    name: str, worker: Worker, become: Callable[..., State], state: State, protocol: Protocol
) -> Iterator[Move]:
    if not worker.delivering and worker.at < ROWS:
        yield f"{name} begins row {worker.at}", become(worker._replace(delivering=True))
        if not protocol.in_order and worker.at + 1 < ROWS:
            yield f"{name} passes row {worker.at}", become(worker._replace(delivering=True, at=worker.at + 1))
    elif worker.delivering:
        done = become(worker._replace(delivering=False, report=worker.at), delivered=(*state.delivered, worker.at))
        yield f"{name} has delivered row {worker.at}", done


def _settled(state: State, number: int, worker: Worker, become: Callable[..., State], protocol: Protocol) -> State:
    """The store takes a report only from whom it knows as the holder, under the present token, on from the head."""
    row = worker.report
    assert row is not None
    known = state.token == worker.token and state.holder == number
    if protocol.fenced and not known:
        return become(Worker())
    after = Worker() if row + 1 == ROWS else Worker(worker.token, row + 1)
    ended = {"holder": None, "lease_over": False} if row + 1 == ROWS else {}
    return become(after, settled=(*state.settled, worker.token * ROWS + row), head=row + 1, **ended)


class Finding(NamedTuple):
    """A broken invariant and the shortest way to it."""

    problem: str
    way: tuple[str, ...]


def broken(state: State, faults: int) -> str | None:
    """What must never be, at any moment, after so many faults."""
    tokens = [mark // ROWS for mark in state.settled]
    rows = [mark % ROWS for mark in state.settled]
    if len(set(state.settled)) < len(state.settled):
        return "one report took effect twice under one token"
    if tokens != sorted(tokens):
        return "a report under an old token took effect after one under a newer token"
    if rows != list(range(len(rows))):
        return "a row was settled twice or out of order"
    if not set(range(state.head)) <= set(state.delivered):
        return "a row is counted as done that was never delivered"
    firsts = [row for place, row in enumerate(state.delivered) if row not in state.delivered[:place]]
    if firsts != sorted(firsts):
        return "first deliveries are out of order"
    if len(state.delivered) > ROWS + faults:
        return "a row was delivered more often than faults explain"
    return None


@dataclass(frozen=True, slots=True)
class Result:
    """What looking at everything showed."""

    states: int
    endings: int
    most_deliveries: int
    finding: Finding | None


def explore(protocol: Protocol | None = None, start: State | None = None) -> Result:
    """Breadth first through every order of events; ends with the first broken invariant, by the shortest way there."""
    protocol, first = protocol or Protocol(), start or State()
    came: dict[State, tuple[State, str] | None] = {first: None}
    waiting, endings, most = deque([first]), 0, 0
    while waiting:
        state = waiting.popleft()
        most = max(most, len(state.delivered))
        after = list(moves(state, protocol))
        problem = broken(state, first.crashes + first.freezes - state.crashes - state.freezes)
        if problem is None and not after:
            endings += 1
            problem = None if state.head == ROWS else "a row is lost: nothing can happen any more and it is not done"
        if problem is not None:
            return Result(len(came), endings, most, Finding(problem, _way(came, state)))
        for name, each in after:
            if each not in came:
                came[each] = (state, name)
                waiting.append(each)
    if stuck := _cannot_end(came, protocol):
        return Result(len(came), endings, most, Finding("a row is never done from here on", _way(came, stuck)))
    return Result(len(came), endings, most, None)


def _cannot_end(came: dict[State, tuple[State, str] | None], protocol: Protocol) -> State | None:
    """A state from which no order of events leads to the end, if there is one."""
    before: dict[State, list[State]] = {state: [] for state in came}
    for state in came:
        for _, each in moves(state, protocol):
            before[each].append(state)
    reached = {state for state in came if state.head == ROWS}
    waiting = deque(reached)
    while waiting:
        for state in before[waiting.popleft()]:
            if state not in reached:
                reached.add(state)
                waiting.append(state)
    return next((state for state in came if state not in reached), None)


def _way(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    names: list[str] = []
    step = came[state]
    while step is not None:
        names.append(step[1])
        step = came[step[0]]
    return tuple(reversed(names))


MORE_FAULTS = State(crashes=2, freezes=2)
RULES = {
    "the fence": Protocol(fenced=False),
    "one holder at a time": Protocol(one_holder=False),
    "the rescue": Protocol(rescues=False),
    "the order within a strand": Protocol(in_order=False),
}
"""The protocol without each of the rules that it stands on."""
