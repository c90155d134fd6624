"""What must hold of agents' events whatever happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec

from torture.attempts import counted
from torture.blame import ACCEPTED, accepted, in_order, unexplained
from torture.evidence import Entry, Event, Evidence
from torture.saying import hook_said

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


def events_are_what_was_said(evidence: Evidence) -> Iterator[str]:
    """An event is stored under its session, type and content, no more often than it was told, and arrives like that."""
    rows = {event.id: event for event in evidence.events}
    stored = {event.id: _said(event) for event in evidence.events}
    told = {(entry["session"], entry["n"]): entry for entry in evidence.noted("hooks", "acknowledged")}
    for entry in evidence.noted("hooks", "acknowledged"):
        if entry["id"] in rows and stored[entry["id"]] != entry["said"]:
            yield f"event {entry['id']} is a {rows[entry['id']].event_type} of {rows[entry['id']].session}: {entry}"
    for entry in evidence.arrived("hooks"):
        if entry["said"] != stored.get(entry["id"]):
            yield f"event {entry['id']} came as a {entry['event_type']} and does not say what its row says"
    times: Counter[tuple[str, int]] = Counter()
    for event in evidence.events:
        if event.session.startswith("h"):
            name = (event.session, msgspec.json.decode(event.payload).get("n"))
            times[name] += 1
            if name not in told or stored[event.id] != told[name]["said"]:
                yield f"event {event.id} of {event.session} is nothing that was told"
    for name, entry in told.items():
        if times[name] > entry["calls"]:
            yield f"event {name} is stored {times[name]} times after {entry['calls']} calls"


def _said(event: Event) -> str:
    return hook_said(event.session, event.event_type, msgspec.json.decode(event.payload))


def receivers_lose_nothing(evidence: Evidence) -> Iterator[str]:
    """What an agent's receiver took is there once, in the order in which it was told; of a killed one, once or not at all."""
    kept: dict[str, list[str]] = defaultdict(list)
    for event in sorted(evidence.events, key=lambda event: (event.session, event.seq)):
        if event.session.startswith("a"):
            kept[event.session].append(str(msgspec.json.decode(event.payload).get("prompt")))
            if event.event_type != "user_prompt_submit":
                yield f"event {event.id} of {event.session} is a {event.event_type}"
    killed = {_prompt(entry) for entry in evidence.noted("hooks", "receiver killed")}
    told: dict[str, list[str]] = defaultdict(list)
    for entry in evidence.noted("hooks", "received"):
        told[entry["session"]].append(_prompt(entry))
    for session, prompts in told.items():
        if missing := set(prompts) - set(kept[session]):
            yield f"{session} told {sorted(missing)[:5]}, which nobody has"
        elif len(set(kept[session])) != len(kept[session]):
            yield f"{session} has {[prompt for prompt, times in Counter(kept[session]).items() if times > 1]} twice"
        elif prompts != (found := [prompt for prompt in kept[session] if prompt not in killed]):
            wrong = [f"{a} for {b}" for a, b in zip(found, prompts, strict=False) if a != b]
            yield f"{session} has {len(found)} events for {len(prompts)}, first {wrong[:3]}"


def _prompt(entry: Entry) -> str:
    return f"{entry['session']}:{entry['n']}"


def sessions_are_in_order(evidence: Evidence) -> Iterator[str]:
    """Arrivals, and those that were accepted, begin in the order of `seq`, and that is the order of the answers."""
    rows = {event.id: event for event in evidence.events}
    came: dict[str, list[int]] = defaultdict(list)
    yes: dict[str, list[int]] = defaultdict(list)
    for entry in evidence.arrived("hooks"):
        if (row := rows.get(entry["id"])) is not None:
            came[row.session].append(row.seq)
            if entry["answer"] in ACCEPTED:
                yes[row.session].append(row.seq)
    for session, seqs in came.items():
        if not in_order(seqs):
            yield f"first deliveries of {session} came as {list(dict.fromkeys(seqs))[:50]}"
        if not in_order(yes[session]):
            yield f"{session} accepted in the order {list(dict.fromkeys(yes[session]))[:50]}"
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
    yield from counted(evidence, "hooks", evidence.events)


HOOK_RULES = {
    "hooks: nothing lost": nothing_is_lost,
    "hooks: what was said": events_are_what_was_said,
    "hooks: receivers": receivers_lose_nothing,
    "hooks: order": sessions_are_in_order,
    "hooks: bursts": only_bursts_are_superseded,
    "hooks: repetitions": repetitions_have_a_fault,
    "hooks: attempts": attempts_are_counted,
}
