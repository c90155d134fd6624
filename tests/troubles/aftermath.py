"""A database with messages that wait, a backup of it, and what people say and do after that."""

from collections.abc import Callable
from datetime import timedelta

from pillarbox.box import Pillarbox
from pillarbox.engine import Lease, Room
from pillarbox.outbound.model import NewMessage, NewTenant

LEASE = Lease("test", timedelta(minutes=1))
NEW = NewTenant(providers={"email": {"provider": "sandbox"}})
SINCE = {
    "ended": 1,
    "missing": 1,
    "opt_outs": 2,
    "other_key": False,
    "forgotten": 1,
    "revoked_keys": 1,
    "revoked_links": 1,
    "inbox_keys": 2,
    "idempotency_keys": 1,
}
TAKEN_OVER = {
    "opt_outs": 2,
    "other_key": False,
    "forgotten": 1,
    "revoked_keys": 1,
    "revoked_links": 1,
    "complete": True,
}


async def send(box: Pillarbox, name: str, *, key: str | None = None) -> str:
    new = NewMessage(channel="email", to=f"{name}@example.com", subject="Hello", text=f"Dear {name}.")
    return await box.outbound.send("acme", new, idempotency_key=key)


async def fill(url: str, back_up: Callable[[], object]) -> dict[str, str]:
    """Three messages wait; after the backup of it one recipient opts out, one is forgotten, and more."""
    async with Pillarbox.open(url) as box:
        await box.outbound.tenants.put("acme", NEW)
        sent = {name: await send(box, name) for name in ("ann", "bob", "cid")}
        await box.outbound.opt_out("acme", "old@example.com", "email")
        key = await box.keys.create(name="door")
        async with box.inbox.once("before"):
            pass
        link = await box.embeds.make("acme")
        back_up()
        await box.outbound.opt_out("acme", "Ann@Example.com", "all", reason="She said so.")
        await box.outbound.opt_out("acme", "new@example.com", "email")
        assert await box.outbound.forget("acme", "cid@example.com") == 1
        await box.keys.revoke(key.key_id)
        await box.embeds.revoke("acme")
        for name in ("before", "after", "later"):
            async with box.inbox.once(name):
                pass
        await send(box, "dan", key="k1")
    return sent | {"key": key.key, "link": link.token}


async def check_restored(url: str, sent: dict[str, str]) -> None:
    """Whoever opted out or was forgotten is not written to, all opt-outs are there, and what was revoked opens nothing."""
    async with Pillarbox.open(url) as box:
        going = await box.outbound.lane.claim(LEASE, room=Room(64, 64), now=box.database.clock.now())
        assert [strand.key for strand in going] == [sent["bob"]]
        for name in ("ann", "cid"):
            assert (await box.outbound.get(sent[name])).status == "canceled"
        kept = {(each.contact, each.channel, each.reason) for each in await box.outbound.opt_outs("acme")}
        assert kept == {
            ("old@example.com", "email", None),
            ("ann@example.com", "all", "She said so."),
            ("new@example.com", "email", None),
        }
        assert (await box.outbound.get(sent["cid"])).subject is None
        assert await box.keys.find(sent["key"]) is None
        assert await box.embeds.open(sent["link"]) is None
