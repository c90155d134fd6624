"""What needs an operator, in the words and with the links of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pillarbox.dashboard.words import count, segment
from pillarbox.filters.model import words
from pillarbox.operators.attention import Attention, AttentionItem, Kind

_SHOWN_OF_A_KIND = 3


@dataclass(frozen=True, slots=True)
class Group:
    """One kind of trouble: how many there are, where all of them are, and the oldest few."""

    title: str
    tone: str
    href: str
    number: str
    more: bool
    advice: str
    needs: Sequence[Need]


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that needs somebody, and its page."""

    subject: str
    href: str
    item: AttentionItem


_KINDS: Mapping[Kind, tuple[str, str, str]] = MappingProxyType(
    {
        "gone-node": ("Node gone", "bad", "#nodes"),
        "stuck-session": ("Stuck session", "warn", "/sessions?blocked=true"),
        "stuck-events": ("Stuck events", "warn", "/hooks?status=failed"),
        "failing-provider": ("Failing provider", "warn", "/messages?filter=status:retrying,failed+pipe:outbound"),
        "failed-message": ("Failed message", "bad", "/messages?filter=status:failed+pipe:outbound"),
        "dead-event": ("Dead event", "bad", "/hooks?status=dead"),
    }
)


def groups_of(attention: Attention) -> list[Group]:
    """The troubles by kind, the gravest kind first."""
    groups = []
    for kind, (title, tone, href) in _KINDS.items():
        found = [item for item in attention.items if item.kind == kind]
        if found:
            known = attention.counts[kind]
            number = count(known.matching) if known.exact else f"of at least {count(known.matching)}"
            needs = [_need(item) for item in found[:_SHOWN_OF_A_KIND]]
            advice = " ".join(dict.fromkeys(need.item.action for need in needs))
            groups.append(Group(title, tone, href, number, known.matching > len(needs), advice, needs))
    return groups


def _need(item: AttentionItem) -> Need:
    match item.kind:
        case "gone-node":
            return Need(item.id, "#nodes", item)
        case "stuck-session":
            return Need(item.session_id or item.id, f"/sessions/{segment(item.session_id)}", item)
        case "stuck-events" | "dead-event":
            return Need(f"event {item.id} of {item.session_id}", f"/hooks/{segment(item.id)}", item)
        case "failed-message":
            named = item.summary or f"{item.channel} {item.id}"
            return Need(f"{item.tenant_id}: {named}", f"/messages/{segment(item.id)}", item)
        case _:
            sent = words("tenant", item.tenant_id or "") & words("status", "failed", "retrying")
            return Need(f"{item.tenant_id} by {item.id}", f"/messages?filter={segment(sent)}", item)
