"""Messages to sessions: one after another for each session, and sessions that are closed while messages flow."""

from __future__ import annotations

import time
from itertools import count

from torture.door import Door
from torture.producing.settings import Producers
from torture.saying import ORIGIN, inbound_said


async def keep_posting(producers: Producers, number: int) -> None:
    """Post to one session for as long as the round lasts."""
    session = f"s{number}"
    door = producers.door(session)
    for n in count():
        if producers.over():
            return
        await _post(producers, door, session, n)


async def keep_closing(producers: Producers, number: int) -> None:
    """Open a session, post to it, close it, and see that it takes nothing more."""
    chance = producers.chance(f"closer {number}")
    door = producers.door(f"closer {number}")
    for n in count():
        if producers.over():
            return
        session = f"c{number}-{n}"
        if not await open_session(producers, door, session):
            return
        for m in range(chance.randrange(2, 12)):
            await _post(producers, door, session, m)
        status, answer = await door.insist("POST", f"/v1/sessions/{session}/close")
        if status != 200:
            producers.unexpected("close", status, answer)
            return
        producers.ledger.add(pipe="inbound", kind="closed", session=session)
        if await _post(producers, door, session, 1000):
            producers.unexpected("a message to a closed session", 202, session)


async def open_session(producers: Producers, door: Door, session: str) -> bool:
    target = {"kind": "http", "url": f"{producers.round.target}/inbound"}
    status, answer = await door.insist("POST", "/v1/sessions", {"session_id": session, "target": target})
    # After a lost answer the session is there already.
    if status in (201, 409):
        return True
    producers.unexpected("open", status, answer)
    return False


async def _post(producers: Producers, door: Door, session: str, n: int) -> bool:
    source = f"{session}:{n}"
    content, payload = f"{source} \u2013 \u00fc", {"source": source}
    body = {
        "session_id": session,
        "origin": ORIGIN,
        "content": content,
        "payload": payload,
        "source_message_id": source,
    }
    began = time.monotonic()
    status, answer = await door.insist("POST", "/v1/inbound", body)
    if status in (200, 202):
        said = inbound_said(session, ORIGIN, content, payload)
        noted = {"session": session, "n": n, "id": answer["id"], "seq": answer["seq"], "said": said, "began": began}
        producers.ledger.add(pipe="inbound", kind="acknowledged", **noted)
        return True
    if n < 1000 or status != 409:
        producers.unexpected("a message", status, answer)
    return False
