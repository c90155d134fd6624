"""How long receipts take while every call to the platform takes thirteen seconds and typing into tmux hangs for five."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.conversations.incident import FULL, VOICE_CHAT, Incident, Pace, incident

_BETWEEN_RECEIPTS = 0.1


def measure(folder: Path) -> dict[str, Any]:
    """The incident in full time, on SQLite."""
    return asyncio.run(played(folder, FULL))


async def played(folder: Path, pace: Pace) -> dict[str, Any]:
    """Play it through, with receipts all the while, and tell how long they took and what the agent got."""
    async with incident(folder, pace) as scene:
        scene.platform.free.set()
        await scene.receive_voice()
        await scene.receive(VOICE_CHAT, text="/queue")
        others = asyncio.create_task(_receive_others(scene))
        await scene.until(scene.typing_hangs, "an attempt to type the words")
        hanging = (await scene.voice())["attempt_count"]
        await scene.receive(VOICE_CHAT, text="the next message")
        # The attempt that hangs is given up by its own time limit; the next one may go through.
        scene.sham.behave()
        typed = [_text(await scene.typed()), _text(await scene.typed())]
        others.cancel()
        await asyncio.gather(others, return_exceptions=True)
        voice = await scene.voice()
        return {
            "call_seconds": pace.call_seconds,
            "receipts": len(scene.latencies),
            "calls_answered": len(scene.platform.answered),
            "attempt_that_hung": hanging,
            "attempts_of_the_voice_message": voice["attempt_count"],
            "typed": typed,
            "load_after": round(os.getloadavg()[0], 2),
            "receipt_ms": _quantiles(scene.latencies),
        }


async def _receive_others(scene: Incident) -> None:
    while True:
        await scene.receive()
        await asyncio.sleep(_BETWEEN_RECEIPTS)


def _quantiles(latencies: list[float]) -> dict[str, float]:
    ordered = sorted(latencies)
    points = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = {name: ordered[min(int(len(ordered) * point), len(ordered) - 1)] for name, point in points.items()}
    return {name: round(seconds * 1000, 2) for name, seconds in {**found, "max": ordered[-1]}.items()}


def _text(submission: bytes) -> str:
    """What was pasted, without the brackets and the Enter."""
    return submission.removeprefix(b"\x1b[200~").removesuffix(b"\x1b[201~\r").decode()
