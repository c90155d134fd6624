"""The story as it happens: what was said, what was done to whom, and what should not have been."""

from __future__ import annotations

from dataclasses import dataclass, field

from pillarbox.clock import Clock


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    node: str
    kind: str
    lasts: float


@dataclass(slots=True, kw_only=True)
class Chronicle:
    """What every checker writes down, whatever it checks."""

    clock: Clock
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ended_nodes: set[str] = field(default_factory=set)

    def problem(self, text: str) -> None:
        self.problems.append(f"{self.clock.monotonic():.3f} s: {text}")

    def say(self, text: str) -> None:
        self.trace.append(f"{self.clock.monotonic():10.3f}  {text}")

    def fault(self, node: str, kind: str, *, lasts: float = 0.0) -> None:
        self.say(f"{node} fault: {kind}")
        self.faults.append(Fault(self.clock.monotonic(), node, kind, lasts))

    def disturbed(self, node: str) -> bool:
        return any(fault.node == node for fault in self.faults)

    def killed(self, node: str) -> bool:
        return any(fault.node == node and fault.kind == "kill" for fault in self.faults)
