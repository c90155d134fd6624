"""Asks the API, at rest, what became of messages: their state as users are told it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from torture.door import Door
from torture.evidence import Entry, read_ledger
from torture.journal import Journal
from torture.producing.outbound import TENANTS, webhook
from torture.saying import hook_said, inbound_said, outbound_said

SAMPLE = 300
"""How many messages of each pipe are asked about."""

_AT_ONCE = 8


def ask(folder: Path, ports: Sequence[int], target: str, seed: int) -> None:
    """Ask about some of what was acknowledged, chosen by the seed, and write the answers down."""
    chance = random.Random(seed)
    journal = Journal(folder / "reported.jsonl")
    doors = [Door(ports, chance) for _ in range(_AT_ONCE)]
    asyncio.run(_ask_all(doors, journal, target, _chosen(read_ledger(folder), chance)))
    journal.close()


async def _ask_all(doors: Sequence[Door], journal: Journal, target: str, chosen: list[Entry]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for number, door in enumerate(doors):
            tasks.create_task(_ask(door, journal, target, chosen[number :: len(doors)]))


def _chosen(ledger: list[Entry], chance: random.Random) -> list[Entry]:
    kinds = (
        ("inbound", "acknowledged"),
        ("hooks", "acknowledged"),
        ("outbound", "acknowledged"),
        ("inbox", "processed"),
    )
    chosen: list[Entry] = []
    for kind in kinds:
        noted = [entry for entry in ledger if (entry["pipe"], entry["kind"]) == kind]
        chosen += chance.sample(noted, min(SAMPLE, len(noted)))
    return chosen


async def _ask(door: Door, journal: Journal, target: str, chosen: list[Entry]) -> None:
    for entry in chosen:
        if entry.get("plain") and entry["place"].startswith("m/"):
            await _send_again(door, journal, target, entry)
        status, answer = await door.insist("GET", _path(entry))
        name = entry["key"] if entry["pipe"] == "inbox" else entry["id"]
        told = _told(entry["pipe"], answer) if status == 200 else {"status": f"an answer of {status}"}
        journal.add(pipe=entry["pipe"], id=name, **told)
    door.hang_up()


async def _send_again(door: Door, journal: Journal, target: str, entry: Entry) -> None:
    """A key that was used is answered with the message that it was used for."""
    body = webhook(target, entry["tenant"], entry["key"], entry["place"])
    path, key = f"/v1/tenants/{entry['tenant']}/messages", {"Idempotency-Key": entry["key"]}
    status, answer = await door.insist("POST", path, body, key)
    journal.add(pipe="keys", id=entry["key"], status=status, wanted=entry["id"], answered=answer.get("message_id"))


def _path(entry: Entry) -> str:
    match entry["pipe"]:
        case "outbound":
            # A program does not write down whose it was, and sends for each in turn.
            tenant = entry.get("tenant") or TENANTS[int(entry["place"].rpartition("-")[2]) % len(TENANTS)]
            return f"/v1/tenants/{tenant}/messages/{entry['id']}"
        case "inbox":
            return f"/v1/inbox/{quote(entry['key'], safe='')}"
        case pipe:
            return f"/v1/{pipe}/{entry['id']}"


def _told(pipe: str, answer: Any) -> dict[str, Any]:
    """What the answer says, in the words of the evidence."""
    match pipe:
        case "inbound":
            payload = msgspec.json.decode(answer["payload_json"])
            said = inbound_said(answer["session_id"], answer["origin"], answer["content"], payload)
            return {"status": answer["status"], "attempts": answer["attempt_count"], "said": said}
        case "hooks":
            said = hook_said(answer["session_id"], answer["event_type"], answer["payload"])
            return {"status": answer["status"], "attempts": answer["attempt_count"], "said": said}
        case "outbound":
            place = answer["to_address"].partition("/out/")[2]
            said = outbound_said(place, msgspec.json.decode(answer["body_text"]))
            outcomes = [attempt["outcome"] for attempt in answer["attempts"]]
            return {"status": answer["status"], "attempts": outcomes, "said": said}
        case _:
            return {"status": answer["status"]}
