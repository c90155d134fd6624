"""`python -m bench.peers bench.peers.pgqueuer work postgresql://...`"""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib import import_module

import uvloop

from bench.peers.roles import is_blocking, run, run_blocking


def main(module: str, role: str, url: str, *numbers: str) -> None:
    logging.disable(logging.WARNING)
    peer = import_module(module)
    if is_blocking(peer):
        run_blocking(peer, role, url, *map(float, numbers))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(peer, role, url, *map(float, numbers)))


if __name__ == "__main__":
    main(*sys.argv[1:])
