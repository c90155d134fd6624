"""A sound request for every endpoint, to be spoilt in one place at a time; `@name@` stands for what a stand has made."""

from typing import Any

from tests.hostile.adapters import SHOP, SLACK, TELEGRAM, WHATSAPP

EMAIL: dict[str, Any] = {
    "channel": "email",
    "to": "ann@example.com",
    "subject": "Hello",
    "text": "Hello.",
    "cc": ["ben@example.com"],
    "reply_to": "cleo@example.com",
    "attachments": [{"filename": "a.txt", "content": "aGVsbG8="}],
    "headers": {"X-Campaign": "spring"},
    "tags": ["spring"],
}
SMS: dict[str, Any] = {"channel": "sms", "to": "+15005550006", "text": "Hello."}
PUSH: dict[str, Any] = {"channel": "push", "to": "a" * 64, "platform": "ios", "text": "Hello.", "data": {"a": "b"}}
WEBHOOK: dict[str, Any] = {
    "channel": "webhook",
    "to": "https://example.com/lead",
    "body": {"name": "Ann"},
    "headers": {"X-Source": "us"},
    "method": "PUT",
}
TENANT: dict[str, Any] = {
    "name": "Acme",
    "providers": {
        "email": {
            "provider": "sendgrid",
            "from": "Acme <hello@acme.example>",
            "credentials": {"api_key": "env:ACME_SENDGRID_KEY"},
        }
    },
    "settings": {"rate_per_minute": 60, "max_attempts": 3, "trusted_destinations": ["https://example.com"]},
}
MESSAGE: dict[str, Any] = {"session_id": "@session_id@", "origin": "test", "content": "Hello.", "payload": {"a": ["b"]}}
HTTP_SESSION: dict[str, Any] = {
    "title": "A session",
    "target": {
        "kind": "http",
        "url": "http://127.0.0.1:9/in",
        "headers": {"X-A": "b"},
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    },
    "channels": [{"origin": "telegram", "channel_id": "1"}],
}
COMMAND_SESSION: dict[str, Any] = {"target": {"kind": "command", "argv": ["cat"]}}
TMUX_SESSION: dict[str, Any] = {"target": {"kind": "tmux", "name": "agent"}}

# Every endpoint, and the bodies it is sent; none where it takes none.
EXAMPLES: dict[tuple[str, str], list[Any]] = {
    ("POST", "/v1/inbound"): [MESSAGE],
    ("GET", "/v1/inbound"): [],
    ("GET", "/v1/inbound/{id}"): [],
    ("POST", "/v1/inbound/{id}/retry"): [{}],
    ("POST", "/v1/inbound/{id}/expire"): [{}],
    ("POST", "/v1/sessions"): [HTTP_SESSION, COMMAND_SESSION, TMUX_SESSION],
    ("GET", "/v1/sessions"): [],
    ("GET", "/v1/sessions/{session_id}"): [],
    ("PATCH", "/v1/sessions/{session_id}"): [HTTP_SESSION],
    ("POST", "/v1/sessions/{session_id}/close"): [{}],
    ("POST", "/v1/hooks"): [{"session_id": "@session_id@", "event_type": "tool_use", "payload": {"a": ["b"]}}],
    ("GET", "/v1/hooks"): [],
    ("GET", "/v1/hooks/{id}"): [],
    ("POST", "/v1/hooks/{id}/retry"): [{}],
    ("GET", "/v1/events"): [],
    ("POST", "/v1/keys"): [{"tenant": "acme", "name": "A key"}],
    ("GET", "/v1/keys"): [],
    ("DELETE", "/v1/keys/{key_id}"): [],
    ("POST", "/v1/inbox/try-begin"): [{"key": "a:b:1", "owner": "me", "leaseSeconds": 30}],
    ("POST", "/v1/inbox/extend"): [{"key": "@key@", "leaseId": "@lease_id@"}],
    ("POST", "/v1/inbox/mark-processed"): [{"key": "@key@", "leaseId": "@lease_id@", "result": {"a": ["b"]}}],
    ("POST", "/v1/inbox/release"): [{"key": "@key@", "leaseId": "@lease_id@"}],
    ("GET", "/v1/inbox"): [],
    ("GET", "/v1/inbox/{key}"): [],
    ("GET", "/v1/status"): [],
    ("PUT", "/v1/tenants/{tenant}"): [TENANT],
    ("GET", "/v1/tenants"): [],
    ("GET", "/v1/tenants/{tenant}"): [],
    ("DELETE", "/v1/tenants/{tenant}"): [],
    ("POST", "/v1/tenants/{tenant}/messages"): [EMAIL, SMS, PUSH, WEBHOOK],
    ("GET", "/v1/tenants/{tenant}/messages"): [],
    ("GET", "/v1/tenants/{tenant}/messages/{message_id}"): [],
    ("POST", "/v1/tenants/{tenant}/messages/{message_id}/cancel"): [{}],
    ("POST", "/v1/tenants/{tenant}/messages/{message_id}/retry"): [{}],
    ("POST", "/v1/tenants/{tenant}/opt-outs"): [{"contact": "dan@example.com", "channel": "email", "reason": "asked"}],
    ("GET", "/v1/tenants/{tenant}/opt-outs"): [],
    ("DELETE", "/v1/tenants/{tenant}/opt-outs/{opt_out_id}"): [],
    ("POST", "/v1/tenants/{tenant}/forget"): [{"contact": "eve@example.com"}],
    ("GET", "/adapters/whatsapp"): [],
    ("POST", "/adapters/whatsapp"): [WHATSAPP],
    ("POST", "/adapters/telegram"): [TELEGRAM],
    ("POST", "/adapters/slack"): [SLACK],
    ("POST", "/adapters/webhook/{name}"): [SHOP],
    ("GET", "/u/{token}"): [],
    ("POST", "/u/{token}"): [],
    ("GET", "/healthz"): [],
    ("GET", "/readyz"): [],
    ("GET", "/metrics"): [],
    ("GET", "/openapi.json"): [],
    ("GET", "/docs"): [],
    ("GET", "/"): [],
    ("GET", "/login"): [],
    ("POST", "/login"): [],
    ("POST", "/logout"): [],
}
