"""What must hold of outbound messages whatever happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from torture.attempts import are_too_many
from torture.blame import accepted, unexplained
from torture.evidence import Attempt, Evidence, Sent
from torture.lateness import is_late
from torture.saying import order_body, outbound_said


def nothing_is_lost(evidence: Evidence) -> Iterator[str]:
    """An acknowledged message has a row whose state is true: accepted, stopped by somebody, or given up after every attempt."""
    rows = {message.id: message for message in evidence.sent}
    for entry in evidence.noted("outbound", "acknowledged"):
        if entry["id"] not in rows:
            yield f"message {entry['id']} has no row"
    yes = accepted(evidence, "outbound")
    canceled = {entry["id"] for entry in evidence.noted("outbound", "canceled")}
    opted = {(entry["place"], entry["tenant"]) for entry in evidence.noted("outbound", "opted out")}
    for message in evidence.sent:
        if message.status == "delivered":
            if message.id not in yes:
                yield f"message {message.id} is delivered and the target never said so"
        elif message.status == "canceled":
            if message.id not in canceled and (_place(message), message.tenant) not in opted:
                yield f"message {message.id} is canceled and nobody did that"
        elif message.status != "failed" or message.attempts < message.most:
            yield f"message {message.id} ended as {message.status} after {message.attempts} attempts"


def what_arrives_was_said(evidence: Evidence) -> Iterator[str]:
    """Who was told of an id gets that very message: under its tenant and key, to its address, with what it says."""
    rows = {message.id: message for message in evidence.sent}
    said = {order.id: outbound_said(order.place, order_body(order.place)) for order in evidence.orders}
    places = {order.id: order.place for order in evidence.orders}
    for entry in evidence.noted("outbound", "acknowledged"):
        row = rows.get(entry["id"])
        if row is not None and _place(row) != entry["place"]:
            yield f"message {row.id} was acknowledged to whoever sent to {entry['place']} and goes to {_place(row)}"
        if row is not None and row.tenant != entry.get("tenant", row.tenant):
            yield f"message {row.id} of {entry['tenant']} is kept for {row.tenant}"
        if "said" in entry:
            said[entry["id"]], places[entry["id"]] = entry["said"], entry["place"]
    for entry in evidence.arrived("outbound"):
        if entry["id"] not in said:
            yield f"message {entry['id']} came to {entry['place']} and nobody was told that it was taken"
        elif entry["place"] != places[entry["id"]]:
            yield f"message {entry['id']} came to {entry['place']} instead of {places[entry['id']]}"
        elif entry["said"] != said[entry["id"]]:
            yield f"message {entry['id']} to {entry['place']} does not say what was said"


def _place(message: Sent) -> str:
    return (message.address or "").partition("/out/")[2]


def keys_are_used_once(evidence: Evidence) -> Iterator[str]:
    """One key is one message, whatever was repeated."""
    rows = Counter((row.tenant, row.id) for row in evidence.idempotent)
    answers: dict[tuple[str, str], str] = {}
    for entry in evidence.noted("outbound", "acknowledged"):
        if "key" not in entry:
            continue
        if (times := rows[entry["tenant"], entry["id"]]) != 1:
            yield f"message {entry['id']} of {entry['tenant']} is remembered under {times} keys"
        if (first := answers.setdefault((entry["tenant"], entry["key"]), entry["id"])) != entry["id"]:
            yield f"{entry['key']} was answered with {first} and with {entry['id']}"
    for entry in evidence.reported:
        if entry["pipe"] == "keys" and entry["answered"] != entry["wanted"]:
            yield f"{entry['id']} was used for {entry['wanted']} and is answered with {entry['answered']}"
    places = Counter(message.address for message in evidence.sent if "/out/m/" in (message.address or ""))
    for address, count in places.items():
        if count > 1:
            yield f"{count} messages go to {address}"


def messages_exist_exactly_if_their_orders_do(evidence: Evidence) -> Iterator[str]:
    ours = {message.id: _place(message) for message in evidence.sent if "/out/c/" in (message.address or "")}
    orders = {order.id: order.place for order in evidence.orders}
    for message_id in ours.keys() ^ orders.keys():
        yield f"message {message_id} {'has no order' if message_id in ours else 'is missing although its order is there'}"
    for message_id in ours.keys() & orders.keys():
        if ours[message_id] != orders[message_id]:
            yield f"message {message_id} of the order {orders[message_id]} goes to {ours[message_id]}"


def queue_and_history_are_equal(evidence: Evidence) -> Iterator[str]:
    waiting = {message.id for message in evidence.sent if message.status in ("pending", "retrying")}
    for message_id in waiting.symmetric_difference(evidence.queue):
        yield f"message {message_id} is {'only in the history' if message_id in waiting else 'only in the queue'}"


def attempts_are_the_calls(evidence: Evidence) -> Iterator[str]:
    """Attempts are numbered without a gap and end with the accepted one; what was answered was seen, and no call besides."""
    calls = Counter(entry["id"] for entry in evidence.arrived("outbound"))
    last = {entry["id"]: entry["at"] for entry in evidence.arrived("outbound")}
    born = {entry["id"]: entry.get("began", 0.0) for entry in evidence.noted("outbound", "acknowledged")}
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in evidence.attempts:
        attempts[attempt.id].append(attempt)
    for message in evidence.sent:
        yield from _counted(message, attempts[message.id], calls[message.id])
        unseen = message.attempts - calls[message.id]
        if are_too_many(evidence, unseen, born.get(message.id, 0.0), last.get(message.id, float("inf"))):
            yield f"message {message.id} counts {message.attempts} attempts; {calls[message.id]} calls were seen"


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
    for entry in evidence.arrived("outbound"):
        stopped = min(canceled.get(entry["id"], float("inf")), opted.get(entry["place"], float("inf")))
        if is_late(evidence, entry, stopped):
            yield f"message {entry['id']} came {entry['at'] - stopped:.2f} s after it was stopped ({entry['node']})"
    for message_id in canceled:
        if status.get(message_id) != "canceled":
            yield f"message {message_id} was canceled and is {status.get(message_id)}"


OUTBOUND_RULES = {
    "outbound: nothing lost": nothing_is_lost,
    "outbound: what was said": what_arrives_was_said,
    "outbound: stored once": keys_are_used_once,
    "outbound: own transactions": messages_exist_exactly_if_their_orders_do,
    "outbound: queue and history": queue_and_history_are_equal,
    "outbound: attempts": attempts_are_the_calls,
    "outbound: repetitions": repetitions_have_a_fault,
    "outbound: cancel and opt-out": stopped_is_stopped,
}
