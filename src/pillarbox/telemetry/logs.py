"""Structured logs through the standard library, so that an embedding application keeps its own handlers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal

from pillarbox.telemetry.redact import scrub

if TYPE_CHECKING:
    from structlog.typing import Processor


class Event:
    """What happened and to which ids; as text it is one scrubbed line."""

    __slots__ = ("fields", "name")

    def __init__(self, name: str, fields: Mapping[str, object]) -> None:
        self.name = name
        self.fields = fields

    def __str__(self) -> str:
        return " ".join([scrub(self.name), *(f"{key}={scrub(str(value))}" for key, value in self.fields.items())])


class Logger:
    """Says what happened; the fields are ids, counts and brief errors, never addresses or bodies."""

    __slots__ = ("_target",)

    def __init__(self, name: str) -> None:
        self._target = logging.getLogger(name)

    def debug(self, event: str, /, **fields: object) -> None:
        """Say what only a developer wants to know."""
        self._say(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Say what went as it should."""
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Say what went wrong and will be tried again."""
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Say what an operator must look at."""
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if self._target.isEnabledFor(level):
            self._target.log(level, Event(event, fields))


def logger(name: str) -> Logger:
    """Give the logger of a module, named `pillarbox...`."""
    return Logger(name)


def configure(level: Literal["debug", "info", "warning", "error"], format: Literal["text", "json"]) -> None:
    """Send this process's logs to stderr; for our own commands, never for an application that embeds us."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(format))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def _formatter(format: Literal["text", "json"]) -> logging.Formatter:
    # structlog takes 140 ms to import, which a process that never configures logs must not pay.
    import structlog
    from structlog.stdlib import ProcessorFormatter, add_log_level, add_logger_name

    render: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    return ProcessorFormatter(
        foreign_pre_chain=[
            add_log_level,
            add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _unfold_event,
        ],
        processors=[
            structlog.processors.format_exc_info,
            ProcessorFormatter.remove_processors_meta,
            scrub_values,
            render,
        ],
    )


def _unfold_event(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    said = line["_record"].msg
    if isinstance(said, Event):
        line["event"] = said.name
        for key, value in said.fields.items():
            line.setdefault(key, value)
    return line


def scrub_values(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Scrub every value of a log line that is more than a number."""
    for key, value in line.items():
        if key != "timestamp" and not isinstance(value, bool | int | float | None):
            line[key] = scrub(str(value))
    return line
