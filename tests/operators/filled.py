"""A box with a bit of everything in it, and rows that tests put where no clock would."""

from datetime import datetime

from pillarbox import Email, Sms
from pillarbox.box import Pillarbox
from pillarbox.errors import PermanentError
from pillarbox.outbound.messages import Message
from pillarbox.storage import Row, Step
from pillarbox.storage.queries import parse_queries


async def sql(box: Pillarbox, text: str, **params: object) -> list[Row]:
    (query,) = parse_queries(f"-- name: one\n{text}\n")

    def work() -> Step[list[Row]]:
        return (yield query(**params))

    return await box.database.write(work)


async def send(box: Pillarbox, *messages: Message, tenant: str = "acme") -> list[str]:
    return [await box.outbound.send(tenant, message) for message in messages]


async def drain(box: Pillarbox) -> None:
    for pipe in (box.inbound, box.hooks, box.outbound):
        await pipe.drain.step()


async def backdate(box: Pillarbox, table: str, at: datetime) -> None:
    await sql(box, f"UPDATE {table} SET created_at = :at", at=at)


async def fill(box: Pillarbox) -> None:
    """Messages and events of all pipes, in most of the states there are."""

    @box.inbound.target("shaky")
    async def shaky(message: object) -> None:
        raise RuntimeError("the agent is away")

    @box.inbound.target("steady")
    async def steady(message: object) -> None: ...

    @box.hooks.on("broken")
    async def broken(event: object) -> None:
        raise PermanentError("cannot read it")

    @box.hooks.on("shy")
    async def shy(event: object) -> None:
        raise RuntimeError("not now")

    await box.sessions.open(session_id="s1", target={"kind": "python", "name": "shaky"})
    await box.sessions.open(session_id="s2", target={"kind": "python", "name": "steady"})
    await send(
        box,
        Email(to="ann@example.com", subject="one", text="t", tags=["news", "two words"], priority=10),
        Email(to="fail@example.com", subject="two", text="t", tags=["news"]),
        Email(to="flaky@example.com", subject="three", text="t", category="marketing"),
        Sms(to="+14155550101", text="four"),
        Sms(to="+14155550004", text="five"),
    )
    await send(box, Email(to="fail@example.com", subject="six", text="t"), tenant="rival")
    for session in ("s1", "s1", "s2", "s2"):
        await box.inbound.enqueue(session_id=session, origin="chat" if session == "s1" else "terminal", content=session)
    for session, kind in (("s1", "broken"), ("s1", "calm"), ("s2", "shy"), ("s2", "calm")):
        await box.hooks.post(session, kind)
    await drain(box)
    (canceled,) = await send(box, Email(to="bob@example.com", subject="seven", text="t", tags=["a,b"]))
    await box.outbound.cancel(canceled)
    await send(box, Email(to="ann@example.com", subject="eight", text="t", priority=900))
    await box.inbound.enqueue(session_id="s2", origin="terminal", content="later", message_type="text")
