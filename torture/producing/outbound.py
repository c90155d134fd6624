"""Messages of tenants over HTTP: sent, canceled while they wait or just as they go, and recipients who opt out meanwhile."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from torture.door import Door
from torture.producing.settings import Producers
from torture.saying import outbound_said

TENANTS = ("acme", "bolt", "crow")
_ATTEMPTS = 20
_OPTING_OUT_SECONDS = 1.5


async def keep_sending(producers: Producers, number: int) -> None:
    """Send one message after another for as long as the round lasts; now and then cancel one, or have somebody opt out."""
    chance, door = producers.chance(f"sender {number}"), producers.door(f"sender {number}")
    for n in count():
        if producers.over():
            return
        name, tenant = f"{number}-{n}", chance.choice(TENANTS)
        drawn = chance.random()
        if drawn < 0.05:
            await _cancel(producers, door, chance, tenant, name)
        elif drawn < 0.055:
            await _opt_out(producers, door, chance, tenant, name)
        else:
            await _send(producers, door, tenant, name, f"m/{name}")


def webhook(target: str, tenant: str, name: str, place: str) -> dict[str, Any]:
    """A message as it is handed in, the same each time that it is."""
    said = {"name": name, "text": f"to {place} for {tenant} \u2013 \u00fc"}
    return {"channel": "webhook", "to": f"{target}/out/{place}", "body": said, "max_attempts": _ATTEMPTS}


async def _send(producers: Producers, door: Door, tenant: str, name: str, place: str, **more: object) -> str | None:
    body = webhook(producers.round.target, tenant, name, place) | more
    began = time.monotonic()
    status, answer = await door.insist("POST", f"/v1/tenants/{tenant}/messages", body, {"Idempotency-Key": name})
    if status != 202:
        producers.unexpected("a message to send", status, answer)
        return None
    message_id: str = answer["message_id"]
    noted = {"id": message_id, "place": place, "tenant": tenant, "said": outbound_said(place, body["body"])}
    producers.ledger.add(pipe="outbound", kind="acknowledged", key=name, plain=not more, began=began, **noted)
    return message_id


async def _cancel(producers: Producers, door: Door, chance: Random, tenant: str, name: str) -> None:
    later = {"send_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()} if chance.random() < 0.5 else {}
    message_id = await _send(producers, door, tenant, name, f"m/{name}", **later)
    if message_id is None:
        return
    path = f"/v1/tenants/{tenant}/messages/{message_id}/cancel"
    while True:
        status, answer = await door.insist("POST", path)
        if status == 200:
            producers.ledger.add(pipe="outbound", kind="canceled", id=message_id)
            return
        if status != 409:
            producers.unexpected("a cancel", status, answer)
            return
        # Under way, or canceled by a call whose answer was lost.
        status, answer = await door.insist("GET", f"/v1/tenants/{tenant}/messages/{message_id}")
        if answer.get("status") == "canceled":
            producers.ledger.add(pipe="outbound", kind="canceled", id=message_id)
        if not later or answer.get("status") in ("canceled", "delivered", "failed"):
            return


async def _opt_out(producers: Producers, door: Door, chance: Random, tenant: str, name: str) -> None:
    """A few messages to one recipient, who refuses them at first and opts out while they are tried again and again."""
    place = f"o/{name}"
    for n in range(6):
        await _send(producers, door, tenant, f"{name}-{n}", place)
    await asyncio.sleep(chance.uniform(0, _OPTING_OUT_SECONDS))
    contact = f"{producers.round.target}/out/{place}"
    status, answer = await door.insist("POST", f"/v1/tenants/{tenant}/opt-outs", {"contact": contact})
    if status not in (200, 201):
        producers.unexpected("an opt-out", status, answer)
        return
    producers.ledger.add(pipe="outbound", kind="opted out", place=place, tenant=tenant)
    body = {"channel": "webhook", "to": contact, "body": {}}
    status, answer = await door.insist(
        "POST", f"/v1/tenants/{tenant}/messages", body, {"Idempotency-Key": f"{name}-late"}
    )
    if status != 409 or not str(answer.get("type")).endswith("opted-out"):
        producers.unexpected("a message to somebody who opted out", status, answer)
