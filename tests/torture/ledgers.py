"""A small round in which everything was well, for tests to spoil."""

from collections.abc import Callable
from typing import Any

import msgspec

from torture.evidence import Attempt, Event, Evidence, Key, Message, Order, Remembered, Sent, Strand
from torture.saying import hook_said, inbound_said, order_body, outbound_said

Spoil = Callable[[Evidence], object]


def inbound(id: int, session: str, seq: int, at: float, **more: Any) -> dict[str, Any]:
    """An arrival of a message that was accepted the first time."""
    entry = {"pipe": "inbound", "id": id, "session": session, "seq": seq, "at": at, "attempt": 1, "token": seq}
    return entry | {"node": "n0", "answer": "ok", "said": said_in(session, seq - 1)} | more


def hook(id: int, at: float, **more: Any) -> dict[str, Any]:
    entry = {"pipe": "hooks", "id": id, "at": at, "attempt": 1, "node": "n0", "answer": "ok"}
    return entry | {"event_type": EVENTS[id].event_type, "said": said_of(EVENTS[id])} | more


def call(id: str, place: str, at: float, **more: Any) -> dict[str, Any]:
    said = outbound_said(place, order_body(place) if place.startswith("c/") else {"id": id})
    return {"pipe": "outbound", "id": id, "place": place, "at": at, "node": "n0", "answer": "ok", "said": said} | more


def said_in(session: str, n: int) -> str:
    return inbound_said(session, "torture", f"{session}:{n}", None)


def said_of(event: Event) -> str:
    return hook_said(event.session, event.event_type, msgspec.json.decode(event.payload))


def taken_in(at: float, session: str, n: int, id: int) -> dict[str, Any]:
    more = {"session": session, "n": n, "id": id, "seq": n + 1, "said": said_in(session, n), "began": at - 0.1}
    return noted("inbound", "acknowledged", at, **more)


def taken_event(at: float, id: int, **more: Any) -> dict[str, Any]:
    """An event of an agent that told over HTTP, and had to call twice."""
    event = EVENTS[id]
    entry = {"session": event.session, "n": event.seq, "id": id, "event_type": event.event_type, "said": said_of(event)}
    return noted("hooks", "acknowledged", at, **(entry | {"began": at - 0.1, "calls": 2} | more))


def taken_out(at: float, key: str, id: str, place: str, **more: Any) -> dict[str, Any]:
    entry = {"key": key, "id": id, "place": place, "tenant": "acme", "said": outbound_said(place, {"id": id})}
    return noted("outbound", "acknowledged", at, **(entry | more))


def reported(pipe: str, id: object, status: str, said: str, attempts: object) -> dict[str, Any]:
    return {"pipe": pipe, "id": id, "at": 9.0, "status": status, "said": said, "attempts": attempts}


EVENTS = {
    event.id: event
    for event in (
        Event(1, "h0", 1, "tool_use", "superseded", 0, 2, '{"n": 1}'),
        Event(2, "h0", 2, "tool_use", "delivered", 1, None, '{"n": 2}'),
        Event(3, "h0", 3, "agent_stop", "delivered", 1, None, '{"n": 3}'),
        Event(4, "a0", 1, "user_prompt_submit", "delivered", 1, None, '{"prompt": "a0:0"}'),
        Event(5, "a0", 2, "user_prompt_submit", "delivered", 1, None, '{"prompt": "a0:1"}'),
    )
}


def noted(pipe: str, kind: str, at: float, **more: Any) -> dict[str, Any]:
    return {"pipe": pipe, "kind": kind, "at": at} | more


def killed(at: float, node: str = "n0") -> dict[str, Any]:
    return {"fault": "killed", "node": node, "at": at, "until": at + 0.5}


def a_good_round() -> Evidence:
    """Two messages of one session, a closed one, three events, an agent's two, five messages that go out, one key."""
    return Evidence(
        ledger=[
            taken_in(1.0, "s1", 0, 1),
            taken_in(1.1, "s1", 1, 2),
            taken_in(1.2, "c0", 0, 3),
            taken_in(1.3, "c0", 1, 4),
            noted("inbound", "closed", 2.0, session="c0"),
            taken_event(1.0, 1),
            taken_event(1.1, 2),
            taken_event(1.2, 3),
            noted("hooks", "received", 1.3, session="a0", n=0),
            noted("hooks", "received", 1.4, session="a0", n=1),
            noted("hooks", "receiver killed", 1.5, session="a0", n=2),
            taken_out(1.0, "k1", "m1", "m/k1"),
            taken_out(1.0, "k2", "m2", "m/k2"),
            taken_out(1.0, "k3", "m3", "o/k3"),
            taken_out(1.0, "k4", "m4", "o/k3"),
            noted("outbound", "acknowledged", 1.0, id="m5", place="c/x-0"),
            noted("outbound", "canceled", 2.0, id="m2"),
            noted("outbound", "opted out", 3.0, place="o/k3", tenant="acme"),
            noted("inbox", "begun", 1.1, key="i1", lease="l1", asked=1.0),
            noted("inbox", "begun", 1.1, key="i2", lease="l5", asked=1.0),
            noted("inbox", "extended", 3.1, key="i2", lease="l5", asked=3.0),
            noted("inbox", "released", 3.6, key="i2", lease="l5", asked=3.5),
            noted("inbox", "begun", 3.7, key="i2", lease="l6", asked=3.6),
            noted("inbox", "left", 3.9, key="i2", lease="l6"),
            noted("inbox", "processed", 4.0, key="i2", lease="l6"),
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
            call("m5", "c/x-0", 1.5),
        ],
        faults=[killed(1.7), {"fault": "sigterm", "node": "n1", "at": 5.0, "until": 6.0, "exit": 0}],
        messages=[
            Message(1, "s1", 1, "delivered", 2, 2, "s1:0"),
            Message(2, "s1", 2, "delivered", 1, 3, "s1:1"),
            Message(3, "c0", 1, "delivered", 1, 1, "c0:0"),
            Message(4, "c0", 2, "expired", 0, 0, "c0:1"),
        ],
        strands=[Strand("s1", 3, "open", 0), Strand("c0", 2, "closed", 0)],
        events=list(EVENTS.values()),
        sent=[
            Sent("m1", "delivered", 2, 20, "http://t/out/m/k1", "acme"),
            Sent("m2", "canceled", 0, 20, "http://t/out/m/k2", "acme"),
            Sent("m3", "delivered", 1, 20, "http://t/out/o/k3", "acme"),
            Sent("m4", "canceled", 0, 20, "http://t/out/o/k3", "acme"),
            Sent("m5", "delivered", 1, 20, "http://t/out/c/x-0", "acme"),
        ],
        attempts=[
            Attempt("m1", 1, "unknown", None),
            Attempt("m1", 2, "accepted", 200),
            Attempt("m3", 1, "accepted", 200),
            Attempt("m5", 1, "accepted", 200),
        ],
        idempotent=[Remembered("acme", f"m{number}") for number in (1, 2, 3, 4)],
        orders=[Order("m5", "c/x-0")],
        keys=[Key("i1", "processed", "l2"), Key("i2", "processed", "l6")],
        reported=[
            reported("inbound", 1, "delivered", said_in("s1", 0), 2),
            reported("hooks", 1, "superseded", said_of(EVENTS[1]), 0),
            reported("outbound", "m1", "delivered", outbound_said("m/k1", {"id": "m1"}), ["unknown", "accepted"]),
            {"pipe": "inbox", "id": "i1", "at": 9.0, "status": "Processed"},
            {"pipe": "keys", "id": "k1", "at": 9.0, "status": 202, "wanted": "m1", "answered": "m1"},
        ],
        moments=[{"at": 1.5, "wrong": {}, "at_rest": False}, {"at": 9.0, "wrong": {}, "at_rest": True}],
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


def told_otherwise(journal: str, pipe: str, id: object, /, **changes: Any) -> Spoil:
    """As if what was written down of one thing, each time it was, were otherwise."""

    def spoil(round_: Evidence) -> None:
        for entry in getattr(round_, journal):
            if entry["pipe"] == pipe and entry.get("id") == id:
                entry.update(changes)

    return spoil


def nobody_opted_out(round_: Evidence) -> None:
    round_.ledger = [entry for entry in round_.ledger if entry["kind"] != "opted out"]


def given_up_after_a_yes(round_: Evidence) -> None:
    """As if the first message had failed in the end, though its target said yes twice, once long after the only fault."""
    round_.sent[0] = round_.sent[0]._replace(status="failed")
    round_.attempts[1] = Attempt("m1", 2, "unknown", None)
    told_otherwise("reported", "outbound", "m1", status="failed", attempts=["unknown", "unknown"])(round_)
