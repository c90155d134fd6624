"""The life of a process that serves or works: until it is told to stop, then drained, then gone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pillarbox.cli.failures import Failure

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.settings import Settings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SECONDS_AFTER_GRACE = 2.0


def run_process(settings: Settings, work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run a process to its end; the event it is given is set by SIGTERM or SIGINT, and a second one ends it at once."""
    import uvloop

    from pillarbox.telemetry import configure, logger

    configure(settings.log.level, settings.log.format)
    # What uvicorn says of itself at each start, our own lines say better.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)

    async def until_told() -> None:
        with _told_to_stop(settings.shutdown.grace_seconds, logger(__name__).warning) as stop:
            await work(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_told())


async def keep_running(
    box: Pillarbox, stop: asyncio.Event, *, serving: Coroutine[Any, Any, None] | None, workers: bool
) -> None:
    """Serve and work until told to stop, then let requests and deliveries end; raises if either ended by itself."""
    told = asyncio.create_task(stop.wait())
    server = asyncio.create_task(serving) if serving is not None else None
    box.nodes.role = "serve" if serving is not None else "worker"
    workforce = asyncio.create_task(box.run() if workers else box.nodes.run(working=False))
    tasks = [workforce] if server is None else [server, workforce]
    await asyncio.wait([told, *tasks], return_when=asyncio.FIRST_COMPLETED)
    died = [task for task in tasks if task.done()]
    box.stop()
    if not workers:
        workforce.cancel()
    if server is not None:
        server.cancel()
    told.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in died:
        if (error := task.exception()) is not None:
            raise error
        raise Failure(f"The {'server' if task is server else 'workers'} ended unexpectedly; start again.")


@contextmanager
def _told_to_stop(grace: float, warn: Callable[..., None]) -> Iterator[asyncio.Event]:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def leave() -> None:
        warn("the database did not let go in time; leases of this process will end by themselves")
        os._exit(0)

    def hear(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()
        # A thread, which no wedged loop and no hanging database keeps from ending the process.
        timer = threading.Timer(grace + _SECONDS_AFTER_GRACE, leave)
        timer.daemon = True
        timer.start()

    for number in _SIGNALS:
        loop.add_signal_handler(number, hear, number)
    yield stop
