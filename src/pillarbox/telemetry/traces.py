"""OpenTelemetry, where it is installed: one span for each attempt, in the trace of whoever handed the message or event in."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from opentelemetry.trace import Span

T = TypeVar("T")

_INSTALLED = find_spec("opentelemetry") is not None
_PROVIDER = "OTEL_PYTHON_TRACER_PROVIDER"


class AttemptSpan:
    """An attempt's span."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def ended(self, outcome: str) -> None:
        """Say how the attempt ended."""
        self._span.set_attribute("pillarbox.outcome", outcome)


def somebody_traces() -> bool:
    """Whether the program has set tracing up; without that every span is nothing, and would still cost its making."""
    if not _INSTALLED:
        return False
    trace, nobodys, chosen_outside = _tracing()
    # Every delivery asks: the library itself would look through the environment each time.
    if not chosen_outside and getattr(trace, "_TRACER_PROVIDER", trace) is None:
        return False
    return not isinstance(trace.get_tracer_provider(), nobodys)


@cache
def _tracing() -> tuple[ModuleType, tuple[type, ...], bool]:
    """The library, the kinds of tracing that stand for none, and whether the environment names one; an import statement
    would cost as much as all else here."""
    from opentelemetry import trace

    return trace, (trace.ProxyTracerProvider, trace.NoOpTracerProvider), _PROVIDER in os.environ


def current_trace() -> str | None:
    """The trace that the caller is in, to be carried along."""
    if not somebody_traces():
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


async def traced(pipe: str, delivery: Awaitable[T], *, parent: str | None, row_id: int, attempt: int) -> T:
    """Make one delivery, in a span of the trace in which the row was handed in; for when somebody traces."""
    from opentelemetry import trace

    attributes: dict[str, str | int] = {
        "pillarbox.pipe": pipe,
        "pillarbox.message_id": row_id,
        "pillarbox.attempt": attempt,
    }
    tracer = trace.get_tracer("pillarbox")
    with tracer.start_as_current_span(
        f"deliver {pipe}", context=_context(parent), attributes=attributes, record_exception=False
    ) as span:
        outcome = await delivery
        span.set_attribute("pillarbox.outcome", type(outcome).__name__)
        return outcome


def _context(parent: str | None) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None


@contextmanager
def attempt_span(
    parent: str | None, message_id: str, channel: str, provider: str, attempt: int
) -> Iterator[AttemptSpan]:
    """A span around one attempt; its attributes hold ids and kinds, never what is sent or to whom."""
    from opentelemetry import trace

    attributes: dict[str, str | int] = {
        "pillarbox.message_id": message_id,
        "pillarbox.channel": channel,
        "pillarbox.provider": provider,
        "pillarbox.attempt": attempt,
    }
    tracer = trace.get_tracer("pillarbox")
    with tracer.start_as_current_span(f"send {channel}", context=_context(parent), attributes=attributes) as span:
        yield AttemptSpan(span)
