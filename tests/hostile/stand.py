"""An application on a database of its own, with one of everything in it, and whoever watches its rows."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any
from urllib.parse import quote

import apsw
import psycopg

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox, sqlite_path
from pillarbox.dashboard.static_files import address_of
from pillarbox.outbound.tenants import fingerprint
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client, Reply
from tests.dashboard.signed_in import cookie_of, sign_in, token_in
from tests.hostile.adapters import SETTINGS, proof
from tests.hostile.attack import Attack
from tests.hostile.corpus.markup import PROBE
from tests.hostile.digest import Watcher, watch
from tests.servers.daemon import key_for

SECRET = "whsec_bm8gYW5zd2VyIHNob3dzIHRoaXMgc2VjcmV0IQ=="
SECONDS_TO_ANSWER = 20.0
_USUAL = (("host", "127.0.0.1:8025"), ("authorization", f"Bearer {ADMIN_KEY}"))


class Stand:
    """What is attacked; `names` are the ids of what it holds."""

    def __init__(self, box: Pillarbox, rows: Watcher) -> None:
        self.box = box
        self.client = Client(create_app(box, admin_key=ADMIN_KEY))
        self.rows = rows
        self.names: dict[str, str] = {}
        self.sent: set[int] = set()
        self._cookie = ("cookie", "")
        self._numbers = itertools.count(1)

    async def prepare(self) -> None:
        """Make one of everything, anew, with markup for every text that a page shows; and sign in."""
        number = next(self._numbers)
        session_id, tenant, key = f"s{number}", f"acme{number}", f"orders:billing:{number}"
        target = {"kind": "http", "url": "http://127.0.0.1:9/", "secret": SECRET}
        await self._make("POST", "/v1/sessions", {"session_id": session_id, "title": PROBE, "target": target})
        message = {"session_id": session_id, "origin": "test", "content": PROBE, "payload": {PROBE: PROBE}}
        inbound = await self._make("POST", "/v1/inbound", message)
        said = {"session_id": session_id, "event_type": "tool_use", "payload": {PROBE: PROBE}}
        event = await self._make("POST", "/v1/hooks", said)
        providers = {channel: {"provider": "sandbox"} for channel in ("email", "sms", "push", "webhook")}
        await self._make("PUT", f"/v1/tenants/{tenant}", {"name": PROBE, "providers": providers})
        email = {"channel": "email", "to": "fay@example.com", "subject": PROBE, "text": PROBE, "html": PROBE}
        queued = await self._make("POST", f"/v1/tenants/{tenant}/messages", email)
        gus = {"contact": f"gus{number}@example.com", "reason": PROBE}
        opted = await self._make("POST", f"/v1/tenants/{tenant}/opt-outs", gus)
        made = await self._make("POST", "/v1/keys", {"tenant": tenant})
        rival = await self._make("POST", "/v1/keys", {"tenant": "rival"})
        begun = await self._make("POST", "/v1/inbox/try-begin", {"key": key})
        nothing = {"action": "retry", "filter": "status:failed tenant:nobody"}
        operation = await self._make("POST", "/v1/messages/actions", nothing)
        while (await self.box.operations.finish(operation["operation_id"])).state == "running":
            """Somebody else is at it."""
        link = await self._make("POST", f"/v1/tenants/{tenant}/embed-links", {})
        self.names = {
            "name": "shop",
            "session_id": session_id,
            "id": str(inbound["id"]),
            "event_id": str(event["id"]),
            "tenant": tenant,
            "message_id": queued["message_id"],
            "opt_out_id": opted["id"],
            "key_id": made["key_id"],
            "tenant_key": made["key"],
            "rival_key": rival["key"],
            "key": key,
            "lease_id": begun["leaseId"],
            "operation_id": operation["operation_id"],
            "embed_token": link["url"].rpartition("/")[2],
            "file_name": address_of("pillarbox.css").rpartition("/")[2],
            "seen": fingerprint(await self.box.tenants.get(tenant)),
            "form_token": await self._sign_in(),
            "token": self.box.outbound._sealer.token(("unsubscribe", tenant, "fay@example.com")),
        }

    def has_had(self, attack: Attack) -> bool:
        """Whether the same was sent before."""
        return hash(attack.said) in self.sent

    async def suffer(self, attack: Attack) -> Reply:
        """Send an attack and wait for its answer, not for ever."""
        body = self._named(attack.body)
        target = self._named(attack.target, quote)
        self.sent.add(hash(attack.said))
        usual = [(name, value) for name, value in (*_USUAL, self._cookie) if name not in attack.dropped]
        if not any(name == "content-length" for name, _ in attack.headers):
            usual.append(("content-length", str(len(body))))
        headers = [
            *usual,
            *proof(target.decode("latin-1"), body),
            *((name, self._named(value.encode("latin-1")).decode("latin-1")) for name, value in attack.headers),
        ]
        async with asyncio.timeout(SECONDS_TO_ANSWER):
            return await self.client.exchange(attack.method, target, headers, [body])

    async def told(self) -> bytes:
        """What the operator is told of the last form, on the next page that is opened."""
        page = (await self.client.get("/nothing", headers=[self._cookie, ("accept", "text/html")])).body
        return page.partition(b'aria-live="polite">')[2].partition(b"</div>")[0].strip()

    async def come_to_rest(self) -> None:
        """Wait for what goes on in the background."""
        if self.box.operations._working is not None:
            await self.box.operations._working

    async def _sign_in(self) -> str:
        """As an operator's browser does; answers the token of its forms."""
        self._cookie = cookie_of(await sign_in(self.client))
        return token_in((await self.client.get("/tenants", headers=[self._cookie])).body.decode())

    def _named(self, template: bytes, encode: Callable[[str], str] = str) -> bytes:
        for name, value in self.names.items():
            template = template.replace(f"@{name}@".encode(), encode(value).encode())
        return template

    async def _make(self, method: str, path: str, body: dict[str, Any]) -> Any:
        reply = await self.client.request(method, path, body)
        assert reply.status in (200, 201, 202), (path, reply.body)
        return reply.json()


@asynccontextmanager
async def open_stand(url: str) -> AsyncIterator[Stand]:
    """A stand on an empty database."""
    settings = load_settings(environ=key_for(url), adapters=SETTINGS)
    async with Pillarbox.open(url, settings=settings, node="here") as box:
        path = sqlite_path(url)
        with closing(psycopg.connect(url, autocommit=True) if path is None else apsw.Connection(path)) as connection:
            stand = Stand(box, watch(connection))
            await stand.prepare()
            yield stand
