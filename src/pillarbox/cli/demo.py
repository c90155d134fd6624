"""What `pillarbox dev` puts into an empty database, so that there is something to look at."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from pillarbox.errors import NotFound

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.outbound.model import Tenant
    from pillarbox.sessions import Session

ECHO = "echo"
_ECHO_TARGET = {"kind": "python", "name": ECHO}
_AWAY_TARGET = {"kind": "http", "url": "http://127.0.0.1:9/"}
_NO_TARGET = {"kind": "none"}
_LOOKED_AT = 1000
_SANDBOX = {"provider": "sandbox"}

_HTML = "<h1>Welcome</h1><p>This is what your first email looks like.</p>"
_GREETING = {"to": "246810", "text": "The build is green."}
_BY_CHANNEL: dict[str, dict[str, Any]] = {
    "email": {
        "to": "ada@example.com",
        "subject": "Welcome",
        "text": "This is your first email.",
        "html": _HTML,
        "tags": ["welcome"],
    },
    "sms": {"to": "+15005550006", "text": "Your code is 246810."},
    "push": {"to": "demo-device", "subject": "Shipped", "text": "Order 42 is on its way."},
    "webhook": {"to": "https://example.com/orders", "body": {"order": 42, "state": "shipped"}},
    "voice": {"to": "+15005550006", "text": "Your table is ready."},
    "whatsapp": {"to": "+15005550006", "text": "Your table is ready."},
    "inapp": {"to": "ada", "subject": "Grace mentioned you", "text": "Have a look at order 42."},
}
"""What each channel is shown with; a chat gets the greeting."""
# The sandbox does what these addresses say: one is tried again in a minute, the other is refused for good.
_TROUBLED: tuple[dict[str, Any], ...] = (
    {"channel": "email", "to": "flaky@example.com", "subject": "Invoice 7", "text": "The third attempt is accepted."},
    {"channel": "email", "to": "fail@example.com", "subject": "Invoice 8", "text": "Nobody will ever read this."},
)
_EVENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session_start", {"agent": "claude", "native_session_id": "demo"}),
    ("user_prompt_submit", {"prompt": "Make the tests green."}),
    ("tool_use", {"tool_name": "Read"}),
    ("tool_done", {"tool_name": "Read"}),
    ("tool_use", {"tool_name": "Edit"}),
    ("tool_done", {"tool_name": "Edit"}),
    ("agent_stop", {"summary": "All tests are green."}),
)


async def is_empty(box: Pillarbox) -> bool:
    """Whether nobody has used this database yet."""
    return not await box.sessions.list(limit=1) and not await box.tenants.list(limit=1)


async def add_demo_data(box: Pillarbox, *, session_id: str, tenant_id: str) -> None:
    """A chat message that arrives and one that waits for its retry, a message of each channel, and an agent's turn."""
    from msgspec import convert

    from pillarbox.outbound.model import CHANNELS, NewMessage

    await box.inbound.enqueue(session_id=session_id, origin="terminal", content="Hello from Pillarbox.")
    await box.sessions.open(session_id="away", title="Nobody is at home", target=_AWAY_TARGET)
    await box.inbound.enqueue(session_id="away", origin="terminal", content="Is anybody there?")
    each = ({"channel": channel} | _BY_CHANNEL.get(channel, _GREETING) for channel in CHANNELS)
    for message in (*each, *_TROUBLED):
        await box.outbound.send(tenant_id, convert(message, NewMessage))
    await box.sessions.open(session_id="agent", title="A coding agent", target=_NO_TARGET)
    for event_type, payload in _EVENTS:
        await box.hooks.post("agent", event_type, payload)


async def echo_session(box: Pillarbox) -> str:
    """A session that prints what it is told: the first of `echo`, `echo-2` and so on that is one, or can become one."""
    for number in count(1):
        session_id = ECHO if number == 1 else f"{ECHO}-{number}"
        try:
            if _echoes(await box.sessions.get(session_id)):
                break
        except NotFound:
            await box.sessions.open(session_id=session_id, title="Prints what it is told", target=_ECHO_TARGET)
            break
    return session_id


async def sandbox_tenant(box: Pillarbox) -> str:
    """A tenant whose messages stay on this machine, whoever serves this database: `demo`, `demo-2` and so on."""
    from pillarbox.outbound.model import CHANNELS

    for number in count(1):
        tenant_id = "demo" if number == 1 else f"demo-{number}"
        try:
            if _stays_here(await box.tenants.get(tenant_id)):
                break
        except NotFound:
            await box.tenants.set(tenant_id, name="Demo", providers=dict.fromkeys(CHANNELS, _SANDBOX))
            break
    return tenant_id


async def waits_for_a_provider(box: Pillarbox) -> bool:
    """Whether a message waits whose tenant has chosen who is to carry it, and not the sandbox."""
    for status in ("pending", "retrying"):
        for message in await box.outbound.list(status=status, limit=_LOOKED_AT):
            if await _is_for_a_provider(box, message.tenant_id, message.channel):
                return True
    return False


async def _is_for_a_provider(box: Pillarbox, tenant_id: str, channel: str) -> bool:
    try:
        chosen = (await box.tenants.get(tenant_id)).providers.get(channel, _SANDBOX)
    except NotFound:
        return True
    return bool(chosen["provider"] != "sandbox")


def _echoes(session: Session) -> bool:
    return session.lifecycle_status != "closed" and session.target == _ECHO_TARGET


def _stays_here(tenant: Tenant) -> bool:
    return tenant.providers.get("email") == _SANDBOX
