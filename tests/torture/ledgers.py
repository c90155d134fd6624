"""A small round in which everything was well, for tests to spoil."""

from collections.abc import Callable
from typing import Any

from torture.evidence import Attempt, Event, Evidence, Key, Message, Sent, Strand

Spoil = Callable[[Evidence], object]


def inbound(id: int, session: str, seq: int, at: float, **more: Any) -> dict[str, Any]:
    """An arrival of a message that was accepted the first time."""
    entry = {"pipe": "inbound", "id": id, "session": session, "seq": seq, "at": at, "attempt": 1, "token": seq}
    return entry | {"node": "n0", "answer": "ok"} | more


def hook(id: int, at: float, **more: Any) -> dict[str, Any]:
    return {"pipe": "hooks", "id": id, "at": at, "attempt": 1, "node": "n0", "answer": "ok"} | more


def call(id: str, place: str, at: float, **more: Any) -> dict[str, Any]:
    return {"pipe": "outbound", "id": id, "place": place, "at": at, "answer": "ok"} | more


def taken(pipe: str, at: float, **more: Any) -> dict[str, Any]:
    return {"pipe": pipe, "kind": "acknowledged", "at": at} | more


def noted(pipe: str, kind: str, at: float, **more: Any) -> dict[str, Any]:
    return {"pipe": pipe, "kind": kind, "at": at} | more


def killed(at: float, node: str = "n0") -> dict[str, Any]:
    return {"fault": "killed", "node": node, "at": at, "until": at + 0.5}


def a_good_round() -> Evidence:
    """Two messages of one session, a closed one, three events, an agent's two, five messages that go out, one key."""
    return Evidence(
        ledger=[
            taken("inbound", 1.0, session="s1", n=0, id=1, seq=1),
            taken("inbound", 1.1, session="s1", n=1, id=2, seq=2),
            taken("inbound", 1.2, session="c0", n=0, id=3, seq=1),
            taken("inbound", 1.3, session="c0", n=1, id=4, seq=2),
            noted("inbound", "closed", 2.0, session="c0"),
            taken("hooks", 1.0, session="h0", id=1, event_type="tool_use"),
            taken("hooks", 1.1, session="h0", id=2, event_type="tool_use"),
            taken("hooks", 1.2, session="h0", id=3, event_type="agent_stop"),
            noted("hooks", "received", 1.3, session="a0", n=0),
            noted("hooks", "received", 1.4, session="a0", n=1),
            taken("outbound", 1.0, key="k1", id="m1", place="m/k1"),
            taken("outbound", 1.0, key="k2", id="m2", place="m/k2"),
            taken("outbound", 1.0, key="k3", id="m3", place="o/k3"),
            taken("outbound", 1.0, key="k4", id="m4", place="o/k3"),
            taken("outbound", 1.0, id="m5", place="c"),
            noted("outbound", "canceled", 2.0, id="m2"),
            noted("outbound", "opted out", 3.0, place="o/k3"),
            noted("inbox", "begun", 1.1, key="i1", lease="l1", asked=1.0),
            noted("inbox", "begun", 4.2, key="i1", lease="l2", asked=4.1),
            noted("inbox", "processed", 4.3, key="i1", lease="l2"),
            noted("inbox", "seen", 4.5, key="i1"),
        ],
        arrivals=[
            inbound(1, "s1", 1, 1.5),
            inbound(3, "c0", 1, 1.6),
            inbound(1, "s1", 1, 2.5, attempt=2, token=2),
            inbound(2, "s1", 2, 2.6, token=3),
            hook(2, 1.5),
            hook(3, 1.6),
            hook(4, 1.7),
            hook(5, 1.8),
            call("m1", "m/k1", 1.5),
            call("m1", "m/k1", 2.5),
            call("m3", "o/k3", 2.8),
            call("m5", "c/x", 1.5),
        ],
        faults=[killed(1.7), {"fault": "sigterm", "node": "n1", "at": 5.0, "until": 6.0, "exit": 0}],
        messages=[
            Message(1, "s1", 1, "delivered", 2, 2, "s1:0"),
            Message(2, "s1", 2, "delivered", 1, 3, "s1:1"),
            Message(3, "c0", 1, "delivered", 1, 1, "c0:0"),
            Message(4, "c0", 2, "expired", 0, 0, "c0:1"),
        ],
        strands=[Strand("s1", 3, "open", 0), Strand("c0", 2, "closed", 0)],
        events=[
            Event(1, "h0", 1, "tool_use", "superseded", 0, 2, "{}"),
            Event(2, "h0", 2, "tool_use", "delivered", 1, None, "{}"),
            Event(3, "h0", 3, "agent_stop", "delivered", 1, None, "{}"),
            Event(4, "a0", 1, "user_prompt_submit", "delivered", 1, None, '{"prompt": "a0:0"}'),
            Event(5, "a0", 2, "user_prompt_submit", "delivered", 1, None, '{"prompt": "a0:1"}'),
        ],
        sent=[
            Sent("m1", "delivered", 2, 20, "http://t/out/m/k1"),
            Sent("m2", "canceled", 0, 20, "http://t/out/m/k2"),
            Sent("m3", "delivered", 1, 20, "http://t/out/o/k3"),
            Sent("m4", "canceled", 0, 20, "http://t/out/o/k3"),
            Sent("m5", "delivered", 1, 20, "http://t/out/c/x"),
        ],
        attempts=[
            Attempt("m1", 1, "unknown", None),
            Attempt("m1", 2, "accepted", 200),
            Attempt("m3", 1, "accepted", 200),
            Attempt("m5", 1, "accepted", 200),
        ],
        idempotent=["m1", "m2", "m3", "m4"],
        orders=["m5"],
        keys=[Key("i1", "processed", "l2")],
        inbox_lease=3.0,
    )


def without(id: object, pipe: str) -> Spoil:
    """As if a message had never arrived."""

    def spoil(round_: Evidence) -> None:
        round_.arrivals = [entry for entry in round_.arrivals if (entry["pipe"], entry["id"]) != (pipe, id)]

    return spoil


def with_row(rows: str, at: int, **changes: Any) -> Spoil:
    """As if one row of a table were otherwise."""

    def spoil(round_: Evidence) -> None:
        table = getattr(round_, rows)
        table[at] = table[at]._replace(**changes)

    return spoil


def without_row(rows: str, at: int) -> Spoil:
    return lambda round_: getattr(round_, rows).pop(at)


def with_entry(journal: str, **entry: Any) -> Spoil:
    """As if one thing more had happened."""
    return lambda round_: getattr(round_, journal).append(entry)


def with_faults(*faults: dict[str, Any]) -> Spoil:
    def spoil(round_: Evidence) -> None:
        round_.faults = list(faults)

    return spoil


def both(*spoils: Spoil) -> Spoil:
    def spoil(round_: Evidence) -> None:
        for each in spoils:
            each(round_)

    return spoil
