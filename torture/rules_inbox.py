"""What must hold of the inbox whatever happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from torture.evidence import Entry, Evidence

_HELD_UP = 0.5
"""Seconds by which a busy machine may be late with a cancellation."""


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
    """A lease lasts for its length from when it was asked for, and then extended, unless its holder gave it up."""
    begun: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.noted("inbox", "begun"):
        begun[entry["key"]].append(entry)
    held = {entry["lease"]: entry["asked"] for entry in evidence.noted("inbox", "begun")}
    for entry in evidence.noted("inbox", "extended"):
        held[entry["lease"]] = max(held[entry["lease"]], entry["asked"])
    given_up = {entry["lease"]: entry["asked"] for entry in evidence.noted("inbox", "released")}
    for key, holders in begun.items():
        for first, second in pairwise(sorted(holders, key=lambda entry: float(entry["at"]))):
            until = min(held[first["lease"]] + evidence.inbox_lease, given_up.get(first["lease"], float("inf")))
            if second["lease"] != first["lease"] and second["at"] < until:
                yield f"{key} was begun again {until - second['at']:.2f} s before its lease was over"


def no_block_runs_beside_another(evidence: Evidence) -> Iterator[str]:
    """A program that handles a key once has left its block, or is dead, before another enters it.

    One that loses its lease is told so after a last question, within a third of the lease, and has then marked nothing.
    """
    left = {entry["lease"]: entry["at"] for entry in evidence.noted("inbox", "left")}
    marked = {entry["lease"] for entry in evidence.noted("inbox", "processed")}
    entered: dict[str, list[Entry]] = defaultdict(list)
    for entry in evidence.noted("inbox", "begun"):
        if entry["lease"] in left:
            entered[entry["key"]].append(entry)
    for key, blocks in entered.items():
        for first, second in pairwise(sorted(blocks, key=lambda entry: float(entry["at"]))):
            beside = left[first["lease"]] - second["at"]
            if beside > (0 if first["lease"] in marked else evidence.inbox_lease / 3 + _HELD_UP):
                yield f"{key} was entered {beside:.2f} s before its first block was left"


INBOX_RULES = {
    "inbox: processed once": a_key_is_processed_once,
    "inbox: memory": a_processed_key_is_not_begun_again,
    "inbox: leases": nobody_begins_while_another_holds_the_lease,
    "inbox: blocks": no_block_runs_beside_another,
}
