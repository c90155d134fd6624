"""The first page: what waits, what is stuck, and who is talking."""

from __future__ import annotations

from datetime import UTC, datetime

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.pages import html_answer, redirect, shown, table
from pillarbox.hooks.model import HooksStatus
from pillarbox.inbound import InboundMessage
from pillarbox.inbound.model import InboundStatus
from pillarbox.outbound.model import OutboundStatus
from pillarbox.sessions import Session

_MOST_SHOWN = 50
_FRESH_SECONDS = 5


async def show(call: Call) -> Answer:
    login = await call.api.logins.find(call)
    if login is None:
        return redirect("/login")
    box = call.box
    status, hooks, outbound = await box.inbound.status(), await box.hooks.status(), await box.outbound.status()
    failed = await box.inbound.list(status="failed", limit=_MOST_SHOWN)
    sessions = await box.sessions.list(limit=_MOST_SHOWN)
    nav = (
        '<a href="/docs">API</a><form method="post" action="/logout">'
        f'<input type="hidden" name="form_token" value="{login.form_token}"><button>Sign out</button></form>'
    )
    cards = _cards("Inbound", status)
    cards += _cards("Hooks", hooks, ("closed with an error", hooks.dead), ("spooled files", hooks.spooled))
    cards += _cards("Outbound", outbound, ("failed for good", outbound.unsent))
    body = f"{cards}<h2>Waiting for a retry</h2>{_failed(failed)}<h2>Sessions</h2>{_sessions(sessions)}"
    return html_answer("Pillarbox", body, nav=nav, fresh_every=_FRESH_SECONDS)


def _cards(title: str, status: InboundStatus | HooksStatus | OutboundStatus, *more: tuple[str, object]) -> str:
    oldest = "none" if status.oldest_age_seconds is None else _age(status.oldest_age_seconds)
    cards: list[tuple[str, object]] = [
        ("pending", status.pending),
        ("in delivery", status.processing),
        ("waiting for a retry", status.failed),
        *more,
        ("oldest", oldest),
    ]
    return (
        f'<h2>{title}</h2><div class="cards">'
        + "".join(f'<div class="card"><b>{value}</b><span class="soft">{name}</span></div>' for name, value in cards)
        + "</div>"
    )


def _failed(messages: list[InboundMessage]) -> str:
    rows = [
        [
            str(message.id),
            shown(message.session_id),
            str(message.attempt_count),
            shown(message.last_error or ""),
            _instant(message.next_retry_at),
        ]
        for message in messages
    ]
    return table(["message", "session", "attempts", "last error", "next attempt"], rows, empty="Nothing is stuck.")


def _sessions(sessions: list[Session]) -> str:
    rows = [
        [
            f"<code>{shown(session.session_id)}</code>",
            shown(session.title or ""),
            session.lifecycle_status,
            shown(session.target.get("kind", "")),
            _instant(session.updated_at),
        ]
        for session in sessions
    ]
    empty = "No sessions yet; POST /v1/sessions opens one."
    return table(["session", "title", "status", "target", "changed"], rows, empty=empty)


def _instant(value: datetime | None) -> str:
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
