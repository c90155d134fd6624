"""The incident that started it all: a voice message whose delivery hangs, while every call to the platform takes forever."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.incident import played
from tests.conversations.incident import FULL, TENTH, VOICE_CHAT, WORDS, incident
from tests.inbound.targets.tmux_stage import submitted

RECEIPTS = 200
# Each may take a fifth of a call, which is a hundred times what they take.
RECEIPTS_IN_A_CALL = 5
# In full time a call takes thirteen thousand.
MOST_MILLISECONDS = 1000


@pytest.mark.slow
async def test_a_voice_message_is_delivered_once_and_no_receipt_waits_for_a_call_or_a_delivery(tmp_path: Path) -> None:
    """At a tenth of the time; that no call is answered before all receipts are makes it stricter than thirteen seconds."""
    async with incident(tmp_path, TENTH) as scene:
        await scene.receive_voice()
        await scene.receive(VOICE_CHAT, text="/queue")
        under_way = {"sendChatAction", "getFile", "sendMessage"}
        await scene.until(lambda: under_way <= scene.platform.asked(), "calls of every kind")
        await scene.receive_many(RECEIPTS)
        assert scene.platform.answered == [], "every receipt was answered while not one call was"

        scene.platform.free.set()
        received = await scene.received_during("voice", RECEIPTS_IN_A_CALL)
        assert received, "one after the other, while one file is fetched"
        await scene.until(scene.typing_hangs, "an attempt to type the words")
        hanging = (await scene.voice())["attempt_count"]
        await scene.receive_many(RECEIPTS)
        await scene.receive(VOICE_CHAT, text="the next message")
        scene.sham.behave()
        assert await scene.typed() == submitted(WORDS)
        assert await scene.typed() == submitted("the next message"), "and the words once"
        assert (await scene.voice())["attempt_count"] > hanging, "the delivery that hung was given up"
        stored = scene.daemon.call("GET", "/v1/inbound?limit=1000")[1]["items"]
        assert len(stored) == scene.posted - 1, "each message is one row, but for the command"
        assert scene.platform.answered.count("transcriptions") == 1


@pytest.mark.long
async def test_the_incident_in_full_time(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    figures = await played(tmp_path, FULL)
    record_property("incident", figures)
    print(figures)
    assert figures["typed"] == [WORDS, "the next message"]
    assert figures["receipts"] > RECEIPTS
    assert figures["receipt_ms"]["p99"] < MOST_MILLISECONDS
    assert figures["attempts_of_the_voice_message"] > figures["attempt_that_hung"]
