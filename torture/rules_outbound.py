"""What must hold of outbound messages whatever happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from torture.blame import accepted, unexplained
from torture.evidence import Attempt, Evidence, Sent

_ON_ITS_WAY = 2.0
"""Seconds that a request which had left may take to be read, on a busy machine."""


def nothing_is_lost(evidence: Evidence) -> Iterator[str]:
    """An acknowledged message has a row whose state is true: accepted, stopped by somebody, or given up after every attempt."""
    rows = {message.id: message for message in evidence.sent}
    for entry in evidence.noted("outbound", "acknowledged"):
        if entry["id"] not in rows:
            yield f"message {entry['id']} has no row"
    yes = accepted(evidence, "outbound")
    canceled = {entry["id"] for entry in evidence.noted("outbound", "canceled")}
    for message in evidence.sent:
        if message.status == "delivered":
            if message.id not in yes:
                yield f"message {message.id} is delivered and the target never said so"
        elif message.status == "canceled":
            if message.id not in canceled and "/out/o/" not in (message.address or ""):
                yield f"message {message.id} is canceled and nobody did that"
        elif message.status != "failed" or message.attempts < message.most:
            yield f"message {message.id} ended as {message.status} after {message.attempts} attempts"


def keys_are_used_once(evidence: Evidence) -> Iterator[str]:
    """One key is one message, whatever was repeated."""
    remembered, answers = Counter(evidence.idempotent), dict[str, str]()
    for entry in evidence.noted("outbound", "acknowledged"):
        if "key" not in entry:
            continue
        if remembered[entry["id"]] != 1:
            yield f"message {entry['id']} is remembered under {remembered[entry['id']]} keys"
        if answers.setdefault(entry["key"], entry["id"]) != entry["id"]:
            yield f"{entry['key']} was answered with {answers[entry['key']]} and with {entry['id']}"
    places = Counter(message.address for message in evidence.sent if "/out/m/" in (message.address or ""))
    for address, count in places.items():
        if count > 1:
            yield f"{count} messages go to {address}"


def messages_exist_exactly_if_their_orders_do(evidence: Evidence) -> Iterator[str]:
    ours = {message.id for message in evidence.sent if "/out/c/" in (message.address or "")}
    for message_id in ours.symmetric_difference(evidence.orders):
        yield f"message {message_id} {'has no order' if message_id in ours else 'is missing although its order is there'}"


def queue_and_history_are_equal(evidence: Evidence) -> Iterator[str]:
    waiting = {message.id for message in evidence.sent if message.status in ("pending", "retrying")}
    for message_id in waiting.symmetric_difference(evidence.queue):
        yield f"message {message_id} is {'only in the history' if message_id in waiting else 'only in the queue'}"


def attempts_are_the_calls(evidence: Evidence) -> Iterator[str]:
    """Attempts are numbered without a gap, end with the one that was accepted, and are as many as calls were seen."""
    calls = Counter(entry["id"] for entry in evidence.arrived("outbound"))
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        attempts[attempt.id].append(attempt)
    for message in evidence.sent:
        yield from _counted(message, attempts[message.id], calls[message.id])


def _counted(message: Sent, made: list[Attempt], calls: int) -> Iterator[str]:
    if [attempt.attempt for attempt in made] != list(range(1, message.attempts + 1)):
        yield f"message {message.id} counts {message.attempts} and has {[attempt.attempt for attempt in made]}"
    agreed = [attempt.attempt for attempt in made if attempt.outcome == "accepted"]
    if agreed != ([message.attempts] if message.status == "delivered" else []):
        yield f"message {message.id} is {message.status} and was accepted in {agreed} of {message.attempts}"
    answered = sum(attempt.status_code is not None for attempt in made)
    if not answered <= calls <= message.attempts:
        yield f"message {message.id} has {answered} answers and {message.attempts} attempts; {calls} calls were seen"


def repetitions_have_a_fault(evidence: Evidence) -> Iterator[str]:
    """Besides a fault in time, each call after an accepted one needs an attempt whose end nobody knew."""
    yield from unexplained(evidence, "outbound")
    unknown = Counter(attempt.id for attempt in evidence.attempts if attempt.outcome != "accepted")
    for message_id, calls in accepted(evidence, "outbound").items():
        if len(calls) - 1 > unknown[str(message_id)]:
            yield f"message {message_id} was accepted {len(calls)} times and {unknown[str(message_id)]} were not known"


def stopped_is_stopped(evidence: Evidence) -> Iterator[str]:
    """Nothing starts after an acknowledged cancel or opt-out."""
    status = {message.id: message.status for message in evidence.sent}
    canceled = {entry["id"]: entry["at"] for entry in evidence.noted("outbound", "canceled")}
    opted = {entry["place"]: entry["at"] for entry in evidence.noted("outbound", "opted out")}
    paused = [fault for fault in evidence.faults if fault["fault"] == "paused"]
    for entry in evidence.arrived("outbound"):
        stopped = min(canceled.get(entry["id"], float("inf")), opted.get(entry["place"], float("inf")))
        late = entry["at"] - stopped
        stood_still = any(fault["at"] <= entry["at"] and fault["until"] >= stopped - _ON_ITS_WAY for fault in paused)
        if late > _ON_ITS_WAY and not stood_still:
            yield f"message {entry['id']} came {late:.1f} s after it was stopped"
    for message_id in canceled:
        if status.get(message_id) != "canceled":
            yield f"message {message_id} was canceled and is {status.get(message_id)}"


OUTBOUND_RULES = {
    "outbound: nothing lost": nothing_is_lost,
    "outbound: stored once": keys_are_used_once,
    "outbound: own transactions": messages_exist_exactly_if_their_orders_do,
    "outbound: queue and history": queue_and_history_are_equal,
    "outbound: attempts": attempts_are_the_calls,
    "outbound: repetitions": repetitions_have_a_fault,
    "outbound: cancel and opt-out": stopped_is_stopped,
}
