"""A sound form for every page that takes one, to be spoilt in one place at a time; each goes with the token of its login."""

import json

from tests.hostile.examples import TENANT

# The path of a form, and its fields beside the token.
FORMS: dict[str, dict[str, str]] = {
    "/login": {"key": "not-a-key"},
    "/logout": {},
    "/actions": {"action": "retry", "filter": "status:failed tenant:nobody"},
    "/actions/{operation_id}/stop": {},
    "/messages/{message_id}/retry": {},
    "/messages/{message_id}/cancel": {},
    "/messages/{message_id}/resend": {
        "to": "hal@example.com",
        "subject": "Hello",
        "text": "Hello.",
        "html": "<p>Hello.</p>",
        "body": "",
        "once": "",
    },
    "/inbound/{id}/retry": {"back": "/inbound/@id@"},
    "/inbound/{id}/expire": {"back": "/sessions"},
    "/sessions/{session_id}/close": {"back": "/sessions"},
    "/hooks/{id}/retry": {"back": "/hooks"},
    "/tenants": {"tenant": "beta", "name": "Beta"},
    "/tenants/{tenant}": {"document": json.dumps(TENANT), "seen": "@seen@"},
    "/tenants/{tenant}/opt-outs": {"contact": "ira@example.com", "channel": "email", "reason": "asked"},
    "/tenants/{tenant}/opt-outs/{opt_out_id}/remove": {},
    "/tenants/{tenant}/forget": {"contact": "jan@example.com"},
    "/tenants/{tenant}/embed-links": {"origin": "https://example.com", "expires_in": "3600"},
    "/tenants/{tenant}/embed-links/revoke": {},
    "/sandbox": {"times": "1", "channel": "sms", "trouble": "fail"},
    "/sandbox/clear": {},
}
TOKEN = {"form_token": "@form_token@"}
# What signing in needs no token for.
WITHOUT_TOKEN = ("/login",)
