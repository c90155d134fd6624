"""What must hold of agents' events whatever happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from torture.blame import accepted, in_order, unexplained
from torture.evidence import Event, Evidence

CRITICAL = frozenset({"session_start", "user_prompt_submit", "agent_stop", "session_end", "notification", "error"})


def nothing_is_lost(evidence: Evidence) -> Iterator[str]:
    """An acknowledged event has a row that was accepted by the target, or was superseded."""
    rows = {event.id: event for event in evidence.events}
    for entry in evidence.noted("hooks", "acknowledged"):
        if entry["id"] not in rows:
            yield f"event {entry['id']} of {entry['session']} has no row"
    yes = accepted(evidence, "hooks")
    for event in evidence.events:
        if event.status == "delivered":
            if event.id not in yes:
                yield f"event {event.id} is delivered and the target never said so"
        elif event.status != "superseded":
            yield f"event {event.id} of {event.session} ended as {event.status}"


def receivers_lose_nothing(evidence: Evidence) -> Iterator[str]:
    """What an agent's receiver took is there once, in the order in which it was told."""
    told: dict[str, list[str]] = defaultdict(list)
    for event in sorted(evidence.events, key=lambda event: (event.session, event.seq)):
        if event.session.startswith("a"):
            told[event.session].append(str(msgspec.json.decode(event.payload).get("prompt")))
    received: dict[str, list[str]] = defaultdict(list)
    for entry in evidence.noted("hooks", "received"):
        received[entry["session"]].append(f"{entry['session']}:{entry['n']}")
    for session, prompts in received.items():
        if missing := set(prompts) - set(told[session]):
            yield f"{session} told {sorted(missing)[:5]}, which nobody has"
        elif told[session] != prompts:
            wrong = [f"{a} for {b}" for a, b in zip(told[session], prompts, strict=False) if a != b]
            yield f"{session} has {len(told[session])} events for {len(prompts)}, first {wrong[:3]}"


def sessions_are_in_order(evidence: Evidence) -> Iterator[str]:
    rows = {event.id: event for event in evidence.events}
    came: dict[str, list[int]] = defaultdict(list)
    for entry in evidence.arrived("hooks"):
        if entry["id"] in rows:
            came[rows[entry["id"]].session].append(rows[entry["id"]].seq)
    for session, seqs in came.items():
        if not in_order(seqs):
            yield f"first deliveries of {session} came as {list(dict.fromkeys(seqs))[:50]}"
    enqueued: dict[str, int] = defaultdict(int)
    for entry in evidence.noted("hooks", "acknowledged"):
        row = rows.get(entry["id"])
        if row is not None and row.seq <= enqueued[row.session]:
            yield f"{row.session} took {row.seq} after {enqueued[row.session]}"
        elif row is not None:
            enqueued[row.session] = row.seq


def only_bursts_are_superseded(evidence: Evidence) -> Iterator[str]:
    """No critical event is superseded, and any other only by a later one of its type with no critical one between."""
    rows = {event.id: event for event in evidence.events}
    critical: dict[str, list[Event]] = defaultdict(list)
    for event in evidence.events:
        if event.event_type in CRITICAL:
            critical[event.session].append(event)
    for event in evidence.events:
        if event.status != "superseded":
            continue
        by = rows.get(event.superseded_by or 0)
        if event.event_type in CRITICAL:
            yield f"event {event.id} is a {event.event_type} and was superseded"
        elif by is None or (by.session, by.event_type) != (event.session, event.event_type) or by.seq <= event.seq:
            yield f"event {event.id} was superseded by {by}"
        elif any(event.seq < other.seq < by.seq for other in critical[event.session]):
            yield f"event {event.id} was superseded by {by.id} across a critical one"


def repetitions_have_a_fault(evidence: Evidence) -> Iterator[str]:
    yield from unexplained(evidence, "hooks")


def attempts_are_counted(evidence: Evidence) -> Iterator[str]:
    came: dict[int, list[int]] = defaultdict(list)
    for entry in evidence.arrived("hooks"):
        came[entry["id"]].append(entry["attempt"])
    for event in evidence.events:
        attempts = came.get(event.id, [])
        if len(set(attempts)) != len(attempts):
            yield f"event {event.id} came with the attempts {attempts}"
        elif attempts and max(attempts) > event.attempts:
            yield f"event {event.id} came with attempt {max(attempts)} and counts {event.attempts}"


HOOK_RULES = {
    "hooks: nothing lost": nothing_is_lost,
    "hooks: receivers": receivers_lose_nothing,
    "hooks: order": sessions_are_in_order,
    "hooks: bursts": only_bursts_are_superseded,
    "hooks: repetitions": repetitions_have_a_fault,
    "hooks: attempts": attempts_are_counted,
}
