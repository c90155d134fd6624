"""What must hold whatever happened: nothing acknowledged is lost, first deliveries are in order, duplicates are accounted for."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.crash.recorder import Arrival


def first_deliveries(arrivals: Iterable[Arrival]) -> dict[str, list[int]]:
    """The seqs of each session in the order in which they first came."""
    order: dict[str, list[int]] = defaultdict(list)
    for arrival in arrivals:
        if arrival.seq not in order[arrival.session_id]:
            order[arrival.session_id].append(arrival.seq)
    return order


def inversions(arrivals: Iterable[Arrival]) -> list[tuple[str, list[int]]]:
    return [(session, seqs) for session, seqs in first_deliveries(arrivals).items() if seqs != sorted(seqs)]


def lost(acknowledged: Iterable[int], arrivals: Iterable[Arrival]) -> set[int]:
    return set(acknowledged) - {arrival.message_id for arrival in arrivals}


def duplicates(arrivals: Iterable[Arrival]) -> int:
    """How many arrivals were not the first of their message."""
    return sum(count - 1 for count in Counter(arrival.message_id for arrival in arrivals).values())
