"""Where a session's words are read from, and whither each goes, also after long and odd histories."""

from datetime import datetime
from functools import partial

import pytest

from pillarbox.box import Pillarbox
from pillarbox.conversations import lines, ways
from pillarbox.conversations.lines import PANE, queries
from pillarbox.conversations.model import Chat, Cursor, Line, Source
from pillarbox.conversations.transcript import Said
from pillarbox.settings import load_settings
from pillarbox.storage import Step
from tests.operators.filled import sql
from tests.servers.daemon import SECRETS_KEY


@pytest.mark.parametrize("forgets", [True, False], ids=["from now on", "where it was so before"])
async def test_a_pane_is_heard_though_a_transcript_was_left_before(database_url: str, forgets: bool) -> None:
    settings = load_settings(environ={}, secrets={"key": SECRETS_KEY})
    async with Pillarbox.open(database_url, settings=settings) as box:
        now = box.database.clock.now()

        def switched() -> Step[Cursor]:
            yield from lines.lock("s1")
            read = {"source": "/t/b.jsonl" if forgets else PANE, "head": "h", "position": 5, "told_until": None}
            left = {"left_source": "/t/a.jsonl", "left_head": "x", "left_position": 9, "left_at": now}
            yield queries.move(session_id="s1", next_seq=1, heard_seq=0, **read, **left)
            yield queries.watch_pane(session_id="s1", source=PANE)
            return (yield from lines.lock("s1")).read

        read = await box.database.write(switched)
        source = Source("s1", None, None, now, read)
        heard = partial(lines.record, source, [Said("hello", "")], Cursor(PANE, "d:1", 1, read.told_until), now)
        assert await box.database.write(heard) == 1


async def test_a_chat_that_is_far_behind_is_told_on(database_url: str) -> None:
    settings = load_settings(environ={}, secrets={"key": SECRETS_KEY})
    async with Pillarbox.open(database_url, settings=settings) as box:
        now = box.database.clock.now()
        await box.sessions.open(session_id="s", target={"kind": "none"})
        for number in range(120):
            await box.inbound.enqueue(
                session_id="s",
                origin="telegram",
                content="x",
                payload={"thread_id": number % 7},
                source_message_id=f"1:1:{number}",
                source_channel_id="1",
            )
        await sql(box, "UPDATE inbound_queue SET attempt_count = 1")
        chat = Chat("s", "telegram", "1", 1, 0, None)
        said = [line(1, 0, now), line(2, 5, now)]
        taken = await box.database.read(partial(ways.of_one_way, chat, said, {}))
        assert taken.lines == said[:1]
        assert taken.data == {"thread_id": 119 % 7}


def line(seq: int, turn: int, said_at: datetime) -> Line:
    return Line(
        session_id="s",
        seq=seq,
        kind="agent",
        content=f"words {seq}",
        origin=None,
        channel_id=None,
        said_at=said_at,
        turn=turn,
    )
