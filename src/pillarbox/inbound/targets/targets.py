"""Delivering a claimed message to its session's target."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import lru_cache
from typing import assert_never

from msgspec.structs import replace

from pillarbox.clock import Clock
from pillarbox.engine import Outcome, Retry, Skipped, not_begun
from pillarbox.errors import InvalidInput
from pillarbox.inbound.model import InboundMessage, Parcel
from pillarbox.inbound.targets.command import deliver_command
from pillarbox.inbound.targets.function import Call, Deliver, callable_of, deliver_call
from pillarbox.inbound.targets.http import HttpDeliverer
from pillarbox.inbound.targets.placement import (
    ANY_NODE,
    CommandTarget,
    HttpTarget,
    NoTarget,
    PythonTarget,
    TargetSpec,
    TmuxTarget,
    read_target,
)
from pillarbox.inbound.targets.tmux import TmuxDeliverer
from pillarbox.storage import DAMAGED
from pillarbox.text import check_name

IsWorking = Callable[[str], Awaitable[bool]]
Adopted = Callable[[str], Awaitable[None]]
_LOOK_AGAIN = timedelta(seconds=1)


class Targets:
    """All kinds of target on one node, and the callables registered in this process."""

    def __init__(self, *, node: str, clock: Clock, adopted: Adopted | None = None) -> None:
        self.node = node
        self._clock = clock
        self._http = HttpDeliverer(node=node, clock=clock)
        self._tmux = TmuxDeliverer(adopted=adopted)
        self.is_working: IsWorking = _unknown
        self._callables: dict[str, Call] = {}
        self._read = lru_cache(maxsize=1024)(_read)

    def register(self, name: str, deliver: Deliver) -> None:
        """Let sessions with the target `{kind: python, name}` be delivered by this callable."""
        check_name("name", name, most=100)
        if name in self._callables:
            raise InvalidInput("name", f"a target named {name} is registered already.")
        self._callables[name] = callable_of(deliver)

    def serves(self) -> list[str]:
        """What this process can deliver to."""
        return [ANY_NODE, f"node:{self.node}", *(f"python:{name}" for name in self._callables)]

    def kind(self, parcel: Parcel) -> str:
        try:
            return self._read(parcel.target).kind
        except InvalidInput:
            return "unknown"

    async def deliver(self, parcel: Parcel) -> Outcome:
        spec = self._read(parcel.target)
        match spec:
            case HttpTarget():
                return await self._http.deliver(spec, self._shown(parcel.message))
            case CommandTarget():
                return await deliver_command(spec, self._shown(parcel.message), node=self.node, clock=self._clock)
            case PythonTarget():
                return await deliver_call(self._callables[spec.name], self._shown(parcel.message))
            case TmuxTarget():
                # As it is stored, for its mark must be the same at each attempt, whatever becomes of the wall clock.
                with not_begun():
                    working = spec.busy != "type" and await self.is_working(parcel.message.session_id)
                if working and spec.busy == "queue":
                    return Skipped("The agent is at work on what it was asked before.", self._clock.now() + _LOOK_AGAIN)
                return await self._tmux.deliver(spec, parcel.message, interrupt=working)
            case NoTarget():
                return Retry("The session has no target any more.", counts=False)
            case _:
                assert_never(spec)

    def _shown(self, message: InboundMessage) -> InboundMessage:
        """The message with its time as the wall clock tells it."""
        created_at = self._clock.shown(message.created_at)
        return message if created_at == message.created_at else replace(message, created_at=created_at)

    async def close(self) -> None:
        await self._http.close()


async def _unknown(session_id: str) -> bool:
    return False


def _read(text: str) -> TargetSpec:
    try:
        read = json.loads(text)
    except ValueError:
        raise InvalidInput("target", DAMAGED) from None
    return read_target(read)
