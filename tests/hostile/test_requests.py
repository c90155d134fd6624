"""More than ten thousand hostile requests: each is answered, the same on both databases, and a refused one leaves no trace."""

import os
from itertools import chain

import pytest

from pillarbox.api.routes import ENDPOINTS
from tests.hostile.assault import assault, room_of
from tests.hostile.corpus.texts import CANARY
from tests.hostile.examples import EXAMPLES
from tests.hostile.form_inputs import takes_a_form
from tests.hostile.forms import FORMS
from tests.hostile.inputs import chosen
from tests.hostile.stand import open_stand

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
# 0.45 makes more than ten thousand; 4 makes all there are.
SHARE = float(os.environ.get("PILLARBOX_TEST_HOSTILE_SHARE", "0.45"))
FEW = 0.02
ROOMS = sorted({room_of(endpoint) for endpoint in ENDPOINTS})


def said(share: float, room: str) -> set[tuple[object, ...]]:
    """What is sent to one room."""
    made = (chosen(endpoint, SEED, share) for endpoint in ENDPOINTS if room_of(endpoint) == room)
    return {attack.said for attack in chain.from_iterable(made)}


@pytest.mark.long
def test_every_endpoint_is_attacked() -> None:
    assert {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS} == EXAMPLES.keys()
    assert {endpoint.path for endpoint in ENDPOINTS if takes_a_form(endpoint)} == FORMS.keys()
    assert all(len(chosen(endpoint, SEED, SHARE)) > 50 for endpoint in ENDPOINTS)


@pytest.mark.long
def test_there_are_more_than_ten_thousand_distinct_attacks() -> None:
    assert len(set[object]().union(*(said(SHARE, room) for room in ROOMS))) > 10_000


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("room", ROOMS)
async def test_hostile_requests_are_answered_alike_on_both_databases_and_change_nothing_when_refused(
    room: str,
    sqlite_url: str,
    postgres_url: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_stand(sqlite_url) as one, open_stand(postgres_url) as other:
        endpoints = [endpoint for endpoint in ENDPOINTS if room_of(endpoint) == room]
        tally = await assault(one, other, endpoints, seed=SEED, share=SHARE)
    # All that the count above promises was sent.
    assert tally.inputs == len(said(SHARE, room))
    for told in (capfd.readouterr().err, caplog.text):
        assert CANARY not in told
        assert "bug in Pillarbox" not in told
        assert "Traceback" not in told


@pytest.mark.slow
async def test_some_hostile_requests_to_every_endpoint_are_answered_alike_on_both_databases(
    sqlite_url: str, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stand(sqlite_url) as one, open_stand(postgres_url) as other:
        tally = await assault(one, other, ENDPOINTS, seed=SEED, share=FEW)
    assert tally.inputs == tally.answers.total() > 500
    assert tally.signed_in > 100
    assert CANARY not in caplog.text
    assert "bug in Pillarbox" not in caplog.text
