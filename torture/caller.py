"""A program that sends within its own transactions and handles keys once; it can be killed: `python -m torture.caller`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import apsw
import psycopg

from pillarbox import Pillarbox, Webhook
from pillarbox.errors import LeaseLost, Unavailable
from torture.journal import Journal
from torture.producing.outbound import TENANTS
from torture.producing.settings import Round, read_round
from torture.saying import order_body

ORDERS = "CREATE TABLE IF NOT EXISTS torture_orders (message_id TEXT PRIMARY KEY, place TEXT NOT NULL)"
_AT_ONCE = 20
_LONG = 0.01
_TROUBLES = (apsw.Error, psycopg.Error, Unavailable, OSError)


def connect(url: str) -> Any:
    """The program's own connection, on either database."""
    if not url.startswith("sqlite"):
        return psycopg.connect(url, autocommit=True)
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(10_000)
    return connection


async def place_orders(box: Pillarbox, round_: Round, journal: Journal, name: str) -> None:
    """Orders and their messages, twenty in a transaction; every tenth transaction is rolled back."""
    for life in count():
        with suppress(*_TROUBLES), closing(connect(round_.database)) as connection:
            for n in count():
                await _place(box, connection, round_, journal, f"{name}-{life}-{n}", commits=n % 10 != 9)
        await asyncio.sleep(0.2)


async def _place(box: Pillarbox, connection: Any, round_: Round, journal: Journal, name: str, *, commits: bool) -> None:
    sqlite = round_.database.startswith("sqlite")
    insert = f"INSERT INTO torture_orders (message_id, place) VALUES {'(?, ?)' if sqlite else '(%s, %s)'}"
    connection.execute("BEGIN IMMEDIATE" if sqlite else "BEGIN")
    sent = []
    for n in range(_AT_ONCE):
        place = f"c/{name}-{n}"
        webhook = Webhook(url=f"{round_.target}/out/{place}", body=order_body(place), max_attempts=20)
        message_id = await box.outbound.send(TENANTS[n % 3], webhook, connection=connection)
        connection.execute(insert, (message_id, place))
        sent.append((message_id, place))
    connection.execute("COMMIT" if commits else "ROLLBACK")
    if commits:
        for message_id, place in sent:
            journal.add(pipe="outbound", kind="acknowledged", id=message_id, place=place)
    journal.keep()
    await asyncio.sleep(0.1)


async def handle_keys(box: Pillarbox, journal: Journal, chance: Random) -> None:
    """The same keys as every other program of this kind, each to be handled once."""
    for n in count():
        key, done = f"once:{n}", False
        while not done:
            try:
                done = await _handle_once(box, journal, key, chance)
            except (LeaseLost, *_TROUBLES):
                pass
            await asyncio.sleep(0.02)


async def _handle_once(box: Pillarbox, journal: Journal, key: str, chance: Random) -> bool:
    asked = time.monotonic()
    async with box.inbox.once(key) as first:
        if not first:
            return first.status == "Processed"
        journal.add(pipe="inbox", kind="begun", key=key, lease=first.lease_id, asked=asked)
        journal.keep(durable=False)
        try:
            # Sometimes for longer than the lease, which is renewed meanwhile.
            await asyncio.sleep(chance.uniform(0, 0.02) if chance.random() > _LONG else box.inbox.lease * 1.5)
        finally:
            journal.add(pipe="inbox", kind="left", key=key, lease=first.lease_id)
            journal.keep(durable=False)
    # Past the block the key is marked.
    journal.add(pipe="inbox", kind="processed", key=key, lease=first.lease_id)
    journal.keep()
    return True


async def main(path: str, name: str) -> None:
    round_ = read_round(path)
    os.environ.update(round_.environ)
    journal = Journal(Path(round_.folder, f"caller-{name}.jsonl"))
    async with Pillarbox.open(round_.database, migrate=False) as box, asyncio.TaskGroup() as tasks:
        print("ready", flush=True)
        tasks.create_task(place_orders(box, round_, journal, name))
        tasks.create_task(handle_keys(box, journal, Random(f"{round_.seed} {name}")))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
