"""OpenTelemetry, where it is installed: one span for each attempt, in the trace of whoever handed the message in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_INSTALLED = find_spec("opentelemetry") is not None


class AttemptSpan:
    """An attempt's span, or nothing where nobody traces."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def ended(self, outcome: str) -> None:
        """Say how the attempt ended."""
        if self._span is not None:
            self._span.set_attribute("pillarbox.outcome", outcome)


def _somebody_traces() -> bool:
    """Whether the program has set tracing up; without that every span is nothing, and would still cost its making."""
    if not _INSTALLED:
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def current_trace() -> str | None:
    """The trace that the caller is in, to be carried along."""
    if not _somebody_traces():
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


@contextmanager
def attempt_span(
    parent: str | None, message_id: str, channel: str, provider: str, attempt: int
) -> Iterator[AttemptSpan]:
    """A span around one attempt; its attributes hold ids and kinds, never what is sent or to whom."""
    if not _somebody_traces():
        yield AttemptSpan()
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context: Any = TraceContextTextMapPropagator().extract({"traceparent": parent}) if parent else None
    attributes: dict[str, str | int] = {
        "pillarbox.message_id": message_id,
        "pillarbox.channel": channel,
        "pillarbox.provider": provider,
        "pillarbox.attempt": attempt,
    }
    tracer = trace.get_tracer("pillarbox")
    with tracer.start_as_current_span(f"send {channel}", context=context, attributes=attributes) as span:
        yield AttemptSpan(span)
