"""What must hold of the inbox whatever happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from torture.evidence import Entry, Evidence


def a_key_is_processed_once(evidence: Evidence) -> Iterator[str]:
    """One lease marks a key, and it stays marked."""
    rows = {key.key: key for key in evidence.keys}
    marked: dict[str, set[str]] = defaultdict(set)
    for entry in evidence.noted("inbox", "processed"):
        marked[entry["key"]].add(entry["lease"])
    for key, leases in marked.items():
        if len(leases) > 1:
            yield f"{key} was marked under {len(leases)} leases"
        row = rows.get(key)
        if row is None or row.status != "processed":
            yield f"{key} was marked and is {row.status if row else 'unknown'}"
        elif row.lease not in leases:
            yield f"{key} was marked under a lease that is not its own"
    for entry in evidence.noted("inbox", "seen"):
        if entry["key"] not in rows or rows[entry["key"]].status != "processed":
            yield f"{entry['key']} was said to be processed and is not"


def a_processed_key_is_not_begun_again(evidence: Evidence) -> Iterator[str]:
    processed: dict[str, float] = {}
    for entry in evidence.noted("inbox", "processed"):
        processed[entry["key"]] = min(entry["at"], processed.get(entry["key"], entry["at"]))
    for entry in evidence.noted("inbox", "begun"):
        if entry["asked"] > processed.get(entry["key"], float("inf")):
            yield f"{entry['key']} was begun after it had been processed"


def nobody_begins_while_another_holds_the_lease(evidence: Evidence) -> Iterator[str]:
    """A lease began after it was asked for, so that nobody else can hold it for its length from then on."""
    begun: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.noted("inbox", "begun"):
        begun[entry["key"]].append(entry)
    for key, holders in begun.items():
        for first, second in pairwise(sorted(holders, key=lambda entry: float(entry["at"]))):
            if second["lease"] != first["lease"] and second["at"] < first["asked"] + evidence.inbox_lease:
                yield f"{key} was begun twice within {second['at'] - first['asked']:.2f} s"


INBOX_RULES = {
    "inbox: processed once": a_key_is_processed_once,
    "inbox: memory": a_processed_key_is_not_begun_again,
    "inbox: leases": nobody_begins_while_another_holds_the_lease,
}
