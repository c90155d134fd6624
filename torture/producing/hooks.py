"""Agents' events: over HTTP, and by the receiver that an agent starts for each event."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from itertools import count
from pathlib import Path
from random import Random

from torture.producing.settings import Producers
from torture.saying import hook_said

_CRITICAL = ("user_prompt_submit", "agent_stop", "notification")
_BURSTY = ("tool_use", "tool_done")
_KILLED = 0.15
_LIFE_SECONDS = 0.2


async def keep_telling(producers: Producers, number: int) -> None:
    """Post one session's events, some of which may supersede one another."""
    session = f"h{number}"
    chance, door = producers.chance(session), producers.door(session)
    body = {"session_id": session, "target": {"kind": "none"}}
    status, answer = await door.insist("POST", "/v1/sessions", body)
    if status not in (201, 409):
        producers.unexpected("open", status, answer)
        return
    for n in count():
        if producers.over():
            return
        event_type = chance.choice(_BURSTY if chance.random() < 0.3 else _CRITICAL)
        payload = {"n": n, "text": f"{event_type} {n} of {session} \u2013 \u00fc"}
        event = {"session_id": session, "event_type": event_type, "payload": payload}
        began = time.monotonic()
        status, answer = await door.insist("POST", "/v1/hooks", event)
        if status != 202:
            producers.unexpected("an event", status, answer)
            return
        producers.ledger.add(
            pipe="hooks",
            kind="acknowledged",
            session=session,
            n=n,
            id=answer["id"],
            event_type=event_type,
            said=hook_said(session, event_type, payload),
            began=began,
            calls=door.calls,
        )


async def keep_receiving(producers: Producers, number: int) -> None:
    """Start the receiver for one event after another; that it ends well is its word for it. Some are killed before."""
    session = f"a{number}"
    chance = producers.chance(session)
    program = [str(Path(sys.executable).with_name("pillarbox")), "hook", "--agent", "claude"]
    environ = {**os.environ, **producers.round.environ, "PILLARBOX_SESSION": session}
    command = [*program, "--database", producers.round.receivers]
    for n in count():
        if producers.over():
            return
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        given = {"session_id": f"native-{session}", "hook_event_name": "UserPromptSubmit", "prompt": f"{session}:{n}"}
        killing = asyncio.create_task(_kill(process, chance)) if chance.random() < _KILLED else None
        said, _ = await process.communicate(json.dumps(given).encode())
        if killing is not None:
            killing.cancel()
        if killing is not None and process.returncode == -signal.SIGKILL:
            producers.ledger.add(pipe="hooks", kind="receiver killed", session=session, n=n)
        elif process.returncode or said:
            producers.unexpected("a receiver", process.returncode or 0, said.decode(errors="replace"))
            return
        else:
            producers.ledger.add(pipe="hooks", kind="received", session=session, n=n)
        await asyncio.sleep(chance.uniform(0, 0.5))


async def _kill(process: asyncio.subprocess.Process, chance: Random) -> None:
    """At any moment of its short life."""
    await asyncio.sleep(chance.uniform(0, _LIFE_SECONDS))
    process.kill()
