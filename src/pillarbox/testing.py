"""What tests of applications, and ours, need."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.inbound import InboundMessage
    from pillarbox.outbound.provider import Outgoing
    from pillarbox.outbound.providers.sandbox import Sandbox, Trouble
    from pillarbox.settings import Settings

_START = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_ROUNDS = 10_000
_KEY_FOR_TESTS = b64encode(bytes(32)).decode()


class ManualClock:
    """A clock that stands still until it is told how much time has passed."""

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def shown(self, instant: datetime) -> datetime:
        return instant

    def stored(self, instant: datetime) -> datetime:
        return instant

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("Time does not go back; give a number of seconds that is not negative.")
        self._passed += timedelta(seconds=seconds)


class RecordingTarget:
    """A target for `box.inbound.target(name)` that keeps what it is given, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.messages: list[InboundMessage] = []
        self._failures = 0

    @property
    def contents(self) -> list[str]:
        """What the messages said, in the order in which they came."""
        return [message.content for message in self.messages]

    def fail(self, times: int = 1) -> None:
        """Make the next deliveries fail."""
        self._failures += times

    async def __call__(self, message: InboundMessage) -> None:
        if self._failures:
            self._failures -= 1
            raise RuntimeError("The test wanted this delivery to fail.")
        self.messages.append(message)


class Rehearsal:
    """A box for one test: it works when told to, its clock moves by hand, and nothing leaves the process."""

    def __init__(self, box: Pillarbox, clock: ManualClock, sandbox: Sandbox) -> None:
        self.box = box
        self.clock = clock
        self._sandbox = sandbox

    @property
    def sent(self) -> list[Outgoing]:
        """What would have left the machine, the oldest first: every message that was accepted."""
        return [each.message for each in self._sandbox.sent() if each.verdict.judgement == "accepted"]

    def trouble(self, kind: Trouble, times: int = 1) -> None:
        """Make the next sends `fail`, `throttle`, `hang`, end in `unknown` or be `flaky`, whoever they are for."""
        self._sandbox.arrange(kind, times)

    async def work(self) -> int:
        """Deliver and send all that is due now, and what that brings about; answers how many rows were settled."""
        drains = (self.box.inbound.drain, self.box.hooks.drain, self.box.outbound.drain)
        total = 0
        for _ in range(_MOST_ROUNDS):
            settled = sum([await drain.step() for drain in drains])
            if not settled:
                return total
            total += settled
        raise RuntimeError("There is always more to do: does a target or a listener enqueue what leads to itself?")

    async def pass_time(self, seconds: float) -> int:
        """Let time pass, and do what has become due; answers how many rows were settled."""
        self.clock.advance(seconds)
        return await self.work()


@asynccontextmanager
async def open_test_box(
    url: str = "sqlite:///:memory:", *, settings: Mapping[str, Mapping[str, Any]] | None = None
) -> AsyncIterator[Rehearsal]:
    """A fresh box whose sandbox takes everything; on SQLite in memory unless a URL is given.

    Neither `pillarbox.toml` nor the environment has a say: a test is the same wherever it runs.
    """
    from pillarbox.box import Pillarbox
    from pillarbox.outbound.providers.sandbox import Sandbox
    from pillarbox.storage import Database

    clock = ManualClock()

    class Still(Pillarbox):
        """A box in the time of the test."""

        def __init__(self, database: Database, settings: Settings, **rest: Any) -> None:
            database.clock = clock  # type: ignore[misc]
            super().__init__(database, settings, **rest)

    with TemporaryDirectory(prefix="pillarbox-test-") as spool:
        async with Still.open(url, settings=_settings_for_tests(url, settings or {}, spool), node="test") as box:
            sandbox = box.outbound.providers["sandbox"]
            assert isinstance(sandbox, Sandbox)
            yield Rehearsal(box, clock, sandbox)


def _settings_for_tests(url: str, given: Mapping[str, Mapping[str, Any]], spool: str) -> Settings:
    from pillarbox.settings import load_settings

    ours: dict[str, dict[str, Any]] = {
        "outbound": {"sandbox": True},
        "hooks": {"spool_dir": spool},
    }
    if not url.startswith("sqlite:"):
        ours["secrets"] = {"key": _KEY_FOR_TESTS}
    merged = {name: {**ours.get(name, {}), **given.get(name, {})} for name in {*ours, *given}}
    return load_settings(Path(os.devnull), {}, **merged)
