"""One action on many messages, each by the rules of the single one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pillarbox.audit import Act
from pillarbox.errors import NotFound, Refused
from pillarbox.filters import Filter
from pillarbox.filters.model import words
from pillarbox.hooks import acting as hooks_acting
from pillarbox.hooks.pipe import Hooks
from pillarbox.inbound import Inbound
from pillarbox.inbound import acting as inbound_acting
from pillarbox.inbound.model import InboundMessage
from pillarbox.operators.model import LogItem
from pillarbox.outbound import acting as outbound_acting
from pillarbox.outbound.pipe import Outbound
from pillarbox.storage import Step

T = TypeVar("T")
Action = Literal["retry", "cancel", "expire"]
ACTIONS: tuple[Action, ...] = ("retry", "cancel", "expire")

DONE = "done"
GONE = "gone"

_FITTING: Mapping[Action, Sequence[tuple[str, Sequence[str]]]] = MappingProxyType(
    {
        "retry": (
            ("outbound", ("failed", "expired", "canceled")),
            ("inbound", ("failed",)),
            ("hooks", ("failed", "dead")),
        ),
        "cancel": (("outbound", ("pending", "retrying")),),
        "expire": (("inbound", ("pending", "processing", "failed")),),
    }
)


def fitting(action: Action, wanted: Filter) -> list[Filter]:
    """What an action can be done to among what a filter matches, pipe by pipe."""
    return [words("pipe", pipe) & words("status", *states) & wanted for pipe, states in _FITTING[action]]


@dataclass(slots=True)
class Deed:
    """What became of the messages of one step."""

    acts: list[tuple[Act, str]] = field(default_factory=list)
    expired: list[InboundMessage] = field(default_factory=list)

    @property
    def refusals(self) -> Counter[str]:
        return Counter(outcome for _, outcome in self.acts if outcome != DONE)


class Bulk:
    """Does one action to the messages and events of a step, inside the step's transaction."""

    def __init__(self, outbound: Outbound, inbound: Inbound, hooks: Hooks) -> None:
        self._outbound = outbound
        self._inbound = inbound
        self._hooks = hooks

    def act(self, action: Action, items: Iterable[LogItem], now: datetime) -> Step[Deed]:
        """Every one in the order in which all lock them; one that is refused leaves the others as they are."""
        deed = Deed()
        for item in sorted(items, key=lambda item: (item.pipe, item.session_id or "", item.id)):
            outcome = yield from _tried(lambda item=item: self._one(action, item, now, deed))  # type: ignore[misc]
            kind = {"outbound": "message", "inbound": "inbound", "hooks": "event"}[item.pipe]
            deed.acts.append((Act(action, kind, item.id, item.tenant_id), outcome))
        return deed

    def after(self, deed: Deed) -> None:
        """A step is on disk: whoever waits for that hears of it."""
        self._inbound.after_acting(deed.expired)
        self._outbound.after_acting()
        self._hooks.after_acting()

    def _one(self, action: Action, item: LogItem, now: datetime, deed: Deed) -> Step[Any]:
        match item.pipe, action:
            case "outbound", "retry":
                yield from outbound_acting.retry("", item.id, now)
            case "outbound", "cancel":
                yield from outbound_acting.cancel("", item.id, now)
            case "inbound", "retry":
                yield from inbound_acting.hasten(int(item.id), now)
            case "inbound", "expire":
                deed.expired.append((yield from self._inbound.expiring(int(item.id), now)))
            case "hooks", "retry":
                yield from hooks_acting.retry(int(item.id), now)


def _tried(step: Callable[[], Step[T]]) -> Step[str]:
    """Every rule is checked before anything is written, so that a refusal leaves nothing behind."""
    try:
        yield from step()
    except NotFound:
        return GONE
    except Refused as refusal:
        return refusal.reason
    return DONE
