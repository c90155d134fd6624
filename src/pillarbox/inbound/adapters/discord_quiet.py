"""What hikari logs, without what it quotes: an event that it cannot read may hold what people wrote."""

from __future__ import annotations

import logging

_LOGGERS = ("asyncio", "hikari.gateway.0")
_QUOTING = {
    "Exception occurred in raw event dispatch conduit": "hikari could not read an event of Discord",
    # An error about bytes that are no text holds all of them.
    "shard 0 raised an exception during shut down": "hikari's connection to Discord had failed",
    "ignoring unknown event": "hikari does not know an event of Discord",
}


class _WithoutPayloads(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        for beginning, instead in _QUOTING.items():
            if isinstance(record.msg, str) and record.msg.startswith(beginning):
                record.msg, record.args, record.exc_info = instead, (), None
        return True


_FILTER = _WithoutPayloads()


def hush() -> None:
    """Keep payloads out of the logs, whoever configured those; doing it twice is doing it once."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
