"""What must hold of inbound messages whatever happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from torture.attempts import counted
from torture.blame import ACCEPTED, accepted, in_order, unexplained
from torture.evidence import Evidence
from torture.lateness import DEAF, is_late

_HEARS_OF_IT = 1.0
"""Seconds within which a node as a rule hears that another one closed a session."""


def nothing_is_lost(evidence: Evidence) -> Iterator[str]:
    """An acknowledged message has a row that has ended; a delivered one was accepted by the target."""
    rows = {message.id: message for message in evidence.messages}
    yes = accepted(evidence, "inbound")
    closed = {entry["session"] for entry in evidence.noted("inbound", "closed")}
    for entry in evidence.noted("inbound", "acknowledged"):
        row = rows.get(entry["id"])
        if row is None:
            yield f"message {entry['id']} of {entry['session']} has no row"
        elif row.status == "delivered":
            if row.id not in yes:
                yield f"message {row.id} is delivered and the target never said so"
        elif row.status != "expired" or row.session not in closed:
            yield f"message {row.id} of {row.session} ended as {row.status}"


def sources_are_stored_once(evidence: Evidence) -> Iterator[str]:
    seen: dict[str, int] = {}
    for message in evidence.messages:
        if message.source is not None and seen.setdefault(message.source, message.id) != message.id:
            yield f"{message.source} is both message {seen[message.source]} and {message.id}"
    for entry in evidence.noted("inbound", "acknowledged"):
        stored = seen.get(f"{entry['session']}:{entry['n']}")
        if stored != entry["id"]:
            yield f"{entry['session']}:{entry['n']} was acknowledged as {entry['id']} and is {stored}"


def what_arrives_was_said(evidence: Evidence) -> Iterator[str]:
    """Every arrival is one that was acknowledged, for the same session and with the same number and content."""
    said = {entry["id"]: entry for entry in evidence.noted("inbound", "acknowledged")}
    for entry in evidence.arrived("inbound"):
        told = said.get(entry["id"])
        if told is None:
            yield f"message {entry['id']} of {entry['session']} came and nobody was told that it was taken"
        elif (entry["session"], entry["seq"]) != (told["session"], told["seq"]):
            yield f"message {entry['id']} came as {entry['seq']} of {entry['session']}, not of {told['session']}"
        elif entry["said"] != told["said"]:
            yield f"message {entry['id']} of {entry['session']} does not say what was said"


def sessions_are_in_order(evidence: Evidence) -> Iterator[str]:
    """Arrivals, and those that were accepted, begin in the order of `seq`; that is the order of the answers, with no gap."""
    came: dict[str, list[int]] = defaultdict(list)
    yes: dict[str, list[int]] = defaultdict(list)
    for entry in evidence.arrived("inbound"):
        came[entry["session"]].append(entry["seq"])
        if entry["answer"] in ACCEPTED:
            yes[entry["session"]].append(entry["seq"])
    for session, seqs in came.items():
        if not in_order(seqs):
            yield f"first deliveries of {session} came as {list(dict.fromkeys(seqs))[:50]}"
        if not in_order(yes[session]):
            yield f"{session} accepted in the order {list(dict.fromkeys(yes[session]))[:50]}"
        if missing := set(range(1, max(seqs) + 1)) - set(seqs):
            yield f"{session} never got {sorted(missing)[:10]} and got what follows"
    enqueued: dict[str, int] = defaultdict(int)
    for entry in evidence.noted("inbound", "acknowledged"):
        if entry["seq"] <= enqueued[entry["session"]]:
            yield f"{entry['session']} took {entry['seq']} after {enqueued[entry['session']]}"
        enqueued[entry["session"]] = entry["seq"]


def repetitions_have_a_fault(evidence: Evidence) -> Iterator[str]:
    yield from unexplained(evidence, "inbound")


def attempts_are_counted(evidence: Evidence) -> Iterator[str]:
    yield from counted(evidence, "inbound", evidence.messages)


def tokens_are_fences(evidence: Evidence) -> Iterator[str]:
    """A token is one claim of one message, and only the last claim's delivery made a message delivered."""
    claims: dict[tuple[str, int], int] = {}
    said_yes = set()
    for entry in evidence.arrived("inbound"):
        claim = (entry["session"], entry["token"])
        if claims.setdefault(claim, entry["id"]) != entry["id"]:
            yield f"token {entry['token']} of {entry['session']} was used for {claims[claim]} and for {entry['id']}"
        if entry["answer"] in ACCEPTED:
            said_yes.add((entry["id"], entry["token"]))
    for message in evidence.messages:
        if message.status == "delivered" and (message.id, message.token) not in said_yes:
            yield f"message {message.id} was marked under token {message.token}, which delivered nothing"


def closed_is_closed(evidence: Evidence) -> Iterator[str]:
    """Nothing was claimed after an acknowledged close: its token is above every one that came; nor did what was claimed before
    begin much later, unless its node was kept from hearing of either."""
    tokens = {strand.session: strand for strand in evidence.strands}
    closed = {entry["session"]: entry["at"] for entry in evidence.noted("inbound", "closed")}
    for entry in evidence.arrived("inbound"):
        if entry["session"] in closed and entry["token"] >= tokens[entry["session"]].token:
            yield f"{entry['session']} got {entry['id']} by a claim after its close"
        elif entry["session"] in closed:
            at = closed[entry["session"]]
            if is_late(evidence, entry, at, within=_HEARS_OF_IT, kept_by=DEAF):
                yield f"{entry['session']} got {entry['id']} {entry['at'] - at:.2f} s after its close ({entry['node']})"
    for session in closed:
        if tokens[session].state != "closed":
            yield f"{session} was closed and is {tokens[session].state}"
    for message in evidence.messages:
        if message.session in closed and message.status not in ("delivered", "expired"):
            yield f"message {message.id} of the closed {message.session} is {message.status}"


def nothing_is_left_over(evidence: Evidence) -> Iterator[str]:
    open_rows: dict[str, int] = defaultdict(int)
    for message in evidence.messages:
        open_rows[message.session] += message.status in ("pending", "processing", "failed")
    for strand in evidence.strands:
        if strand.open != open_rows[strand.session]:
            yield f"{strand.session} counts {strand.open} open and has {open_rows[strand.session]}"
        elif strand.open:
            yield f"{strand.session} still has {strand.open} open"


INBOUND_RULES = {
    "inbound: nothing lost": nothing_is_lost,
    "inbound: stored once": sources_are_stored_once,
    "inbound: what was said": what_arrives_was_said,
    "inbound: order": sessions_are_in_order,
    "inbound: repetitions": repetitions_have_a_fault,
    "inbound: attempts": attempts_are_counted,
    "inbound: fences": tokens_are_fences,
    "inbound: close": closed_is_closed,
    "inbound: nothing left": nothing_is_left_over,
}
