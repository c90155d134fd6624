"""The history that the operator's pages are measured with is what the pipe itself would have made."""

from bench.overview import RETRYING, fill
from pillarbox.box import Pillarbox
from pillarbox.filters import parse_filter
from pillarbox.settings import load_settings
from tests.servers.daemon import key_for


async def test_a_history_has_what_was_sent_what_failed_and_what_waits(database_url: str) -> None:
    await fill(database_url, 300)
    async with Pillarbox.open(database_url, settings=load_settings(environ=key_for(database_url))) as box:
        sent, failed, waiting = [
            (await box.log.count(parse_filter(f"status:{status}"))).matching
            for status in ("sent", "failed", "retrying")
        ]
        attention = await box.attention()
    assert (sent, failed, waiting) == (298, 4, RETRYING + 1), "and the three that were copied"
    assert attention.counts["failed-message"].matching == 4
    assert attention.counts["failing-provider"].exact is False, "more wait than are looked at"
