"""One trace from whoever hands something in to whoever takes it, though the two are different processes."""

import asyncio
import sys
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pillarbox.hooks.model import HookEvent
from pillarbox.testing import RecordingTarget, Rehearsal, open_test_box


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, tracing = InMemorySpanExporter(), TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", tracing.get_tracer)
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", tracing)
    return exporter


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


async def open_session(test: Rehearsal) -> RecordingTarget:
    target = RecordingTarget()
    test.box.inbound.target("agent")(target)
    await test.box.sessions.open(session_id="s", target={"kind": "python", "name": "agent"})
    return target


async def test_each_delivery_is_part_of_the_trace_in_which_its_message_came(spans: InMemorySpanExporter) -> None:
    async with open_test_box() as test:
        target = await open_session(test)
        target.fail()
        with trace.get_tracer("test").start_as_current_span("chat") as chat:
            enqueued = await test.box.inbound.enqueue(session_id="s", origin="test", content="a secret")
        await test.work()
        await test.pass_time(60)
    deliveries = named(spans, "deliver inbound")
    assert [dict(span.attributes or {}).get("pillarbox.attempt") for span in deliveries] == [1, 2]
    assert {span.context.trace_id for span in deliveries} == {chat.get_span_context().trace_id}
    assert {dict(span.attributes or {})["pillarbox.message_id"] for span in deliveries} == {enqueued.id}
    assert "a secret" not in "".join(span.to_json() for span in deliveries)


async def test_an_event_s_listeners_are_part_of_the_trace_in_which_it_was_posted(spans: InMemorySpanExporter) -> None:
    async with open_test_box() as test:
        await open_session(test)

        @test.box.hooks.on("agent_stop")
        async def stopped(event: HookEvent) -> None:
            trace.get_tracer("test").start_span("listening").end()

        with trace.get_tracer("test").start_as_current_span("agent") as agent:
            await test.box.hooks.post("s", "agent_stop", {})
        await test.work()
    (told,), (listening,) = named(spans, "deliver hooks"), named(spans, "listening")
    assert told.context.trace_id == agent.get_span_context().trace_id
    assert listening.parent is not None
    assert listening.parent.span_id == told.context.span_id


async def test_what_another_process_handed_in_keeps_its_trace(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    async with open_test_box(url) as test:
        target = await open_session(test)
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _ELSEWHERE, url, stdout=asyncio.subprocess.PIPE, cwd=tmp_path
        )
        printed, _ = await other.communicate()
        test.clock.advance(10 * 365 * 86400)
        await test.work()
        assert target.contents == ["hello"]
    (delivery,) = named(spans, "deliver inbound")
    assert delivery.context.trace_id == int(printed)


async def test_nothing_is_traced_unless_somebody_asked_for_it() -> None:
    async with open_test_box() as test:
        target = await open_session(test)
        await test.box.inbound.enqueue(session_id="s", origin="test", content="hello")
        await test.work()
        assert target.contents == ["hello"]


_ELSEWHERE = """
import asyncio, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pillarbox import Pillarbox

trace.set_tracer_provider(TracerProvider())

async def main():
    async with Pillarbox.open(sys.argv[1]) as box:
        with trace.get_tracer("elsewhere").start_as_current_span("chat") as span:
            await box.inbound.enqueue(session_id="s", origin="test", content="hello")
            print(span.get_span_context().trace_id)

asyncio.run(main())
"""
