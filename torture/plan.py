"""What a run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torture.places import Kind

NODES = 3
LIGHT_NODES = 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Rounds until there were so many messages, so many kills or so many minutes; a round has a database of its own."""

    seed: int
    database: Kind = "sqlite"
    messages: int = 0
    kills: int = 0
    seconds: float = 0.0
    round_messages: int = 30_000
    nodes: int = NODES
    callers: int = 2
    sessions: int = 24
    closers: int = 2
    hook_sessions: int = 10
    agents: int = 1
    senders: int = 20
    contenders: int = 2
    pace: float = 0.8
    lease: float = 8.0
    inbox_lease: float = 3.0
    calm: bool = False
    every_kind: bool = False

    def lightened(self) -> Plan:
        """The same with a few of everything, for machines with other things to do."""
        return replace(self, nodes=LIGHT_NODES, sessions=8, closers=1, hook_sessions=3, senders=6, contenders=1)
