"""What users are told of their messages is true, and the tables agree at every moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from torture.blame import Blame, accepted
from torture.evidence import Entry, Evidence
from torture.saying import order_body, outbound_said


def what_the_api_reports_is_true(evidence: Evidence) -> Iterator[str]:
    """A message's state, attempts and content as the API tells them, beside what the target saw and the tables hold."""
    tables, said = _tables(evidence), _said(evidence)
    yes = {pipe: accepted(evidence, pipe) for pipe in ("inbound", "hooks", "outbound")}
    blame = Blame(evidence, "outbound")
    for entry in evidence.reported:
        pipe, name = entry["pipe"], entry["id"]
        if pipe == "keys":
            continue
        if pipe == "inbox":
            if entry["status"] != "Processed":
                yield f"key {name} was processed and is reported as {entry['status']}"
            continue
        if (entry["status"] == "delivered") != (name in yes[pipe]) and not _stopped(
            entry, pipe, yes[pipe].get(name, []), blame
        ):
            yield f"{pipe} {name} is reported as {entry['status']}; the target said something else"
        told = (entry["status"], entry.get("attempts"))
        if told != tables[pipe].get(name):
            yield f"{pipe} {name} is reported as {told} and is {tables[pipe].get(name)}"
        if entry.get("said") != said[pipe].get(name):
            yield f"{pipe} {name} is reported to say something else"


def _stopped(entry: Entry, pipe: str, calls: list[Entry], blame: Blame) -> bool:
    """Whether it may have been accepted all the same: ended otherwise after an attempt whose end nobody knew.

    That nobody knew the end of any accepted attempt of a message that is given up needs a fault for each.
    """
    if (pipe, entry["status"]) == ("outbound", "failed"):
        return all(blame.may_be_unknown(call) for call in calls)
    ways = {"inbound": ("expired",), "hooks": ("superseded",), "outbound": ("canceled",)}
    return entry["status"] in ways[pipe]


def _tables(evidence: Evidence) -> dict[str, dict[object, object]]:
    outcomes: dict[str, list[str]] = defaultdict(list)
    for attempt in evidence.attempts:
        outcomes[attempt.id].append(attempt.outcome)
    return {
        "inbound": {row.id: (row.status, row.attempts) for row in evidence.messages},
        "hooks": {row.id: (row.status, row.attempts) for row in evidence.events},
        "outbound": {row.id: (row.status, outcomes[row.id]) for row in evidence.sent},
    }


def _said(evidence: Evidence) -> dict[str, dict[object, str]]:
    found: dict[str, dict[object, str]] = defaultdict(dict)
    found["outbound"] = {order.id: outbound_said(order.place, order_body(order.place)) for order in evidence.orders}
    for entry in evidence.ledger:
        if entry["kind"] == "acknowledged" and "said" in entry:
            found[entry["pipe"]][entry["id"]] = entry["said"]
    return found


def the_tables_agree_at_every_moment(evidence: Evidence) -> Iterator[str]:
    """Whenever somebody looked; and at rest somebody must have."""
    if not any(moment["at_rest"] for moment in evidence.moments):
        yield "nobody could look at the tables at rest"
    for moment in evidence.moments:
        for what, rows in moment["wrong"].items():
            yield f"at {moment['at']:.1f}, {what}: {rows[:3]}"


REPORTED_RULES = {
    "reported states": what_the_api_reports_is_true,
    "at every moment": the_tables_agree_at_every_moment,
}
