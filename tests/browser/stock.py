"""Messages of every kind to look at, put in over the API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from tests.servers.daemon import Daemon

AWAY = {"kind": "http", "url": "http://127.0.0.1:9/"}
SANDBOX = {channel: {"provider": "sandbox"} for channel in ("email", "sms", "push", "webhook")}


@dataclass(frozen=True)
class Stock:
    """A tenant and a session of one test's own."""

    daemon: Daemon
    tenant: str
    session: str

    @classmethod
    def make(cls, daemon: Daemon) -> Stock:
        name = f"t{uuid.uuid4().hex[:10]}"
        made = cls(daemon, name, f"s-{name}")
        assert daemon.call("PUT", f"/v1/tenants/{name}", {"name": "Acme Ltd", "providers": SANDBOX})[0] == 201
        session = {"session_id": made.session, "title": "Ann's printer", "target": AWAY}
        assert daemon.call("POST", "/v1/sessions", session)[0] == 201
        return made

    def send(self, channel: str, to: str, **fields: Any) -> str:
        extra = {"from": "Acme <hello@acme.example>"} if channel == "email" else {}
        body = {"channel": channel, "to": to, **extra, **fields}
        status, answer = self.daemon.call("POST", f"/v1/tenants/{self.tenant}/messages", body)
        assert status == 202, answer
        return str(answer["message_id"])

    def email(self, to: str = "ann@example.com", subject: str = "Welcome aboard", **fields: Any) -> str:
        return self.send("email", to, subject=subject, **({"text": "Hello."} | fields))

    def post(self, content: str = "Is anybody there?", **fields: Any) -> int:
        body = {"session_id": self.session, "origin": "telegram", "content": content, **fields}
        status, answer = self.daemon.call("POST", "/v1/inbound", body)
        assert status == 202, answer
        return int(answer["id"])

    def hook(self, event_type: str = "agent_stop", **payload: Any) -> int:
        body = {"session_id": self.session, "event_type": event_type, "payload": payload}
        status, answer = self.daemon.call("POST", "/v1/hooks", body)
        assert status == 202, answer
        return int(answer["id"])

    def until(self, message_id: str, status: str) -> Any:
        path = f"/v1/tenants/{self.tenant}/messages/{message_id}"
        return self.daemon.until(path, lambda message: message["status"] == status)

    def until_blocked(self, number: int) -> Any:
        return self.daemon.until(f"/v1/inbound/{number}", lambda message: message["status"] == "failed")
