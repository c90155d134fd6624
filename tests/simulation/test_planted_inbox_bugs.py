"""A checker that finds nothing proves nothing: each of these has one bug in the inbox, which must be reported."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pillarbox.inbox import once, sql
from pillarbox.inbox.model import Begun
from tests.simulation.inbox_story import InboxPlan, play_inbox
from tests.simulation.process import Rates
from tests.simulation.weather import Weather

SEEDS = range(12)
FEW = 4
QUIET = [InboxPlan(seed, Weather(), messages=20) for seed in SEEDS]
LONG = [InboxPlan(seed, Weather(lease=6.0), longest_body=20.0) for seed in SEEDS]
FAILING = [InboxPlan(seed, Weather(rates=Rates(target=0.5)), messages=20) for seed in SEEDS]
STRUCK = [InboxPlan(seed, Weather(lease=6.0, blows=6), longest_body=8.0, messages=20) for seed in SEEDS]
CUT = [InboxPlan(seed, Weather(lease=6.0, rates=Rates(store=0.8)), longest_body=8.0, messages=20) for seed in SEEDS]


def plant(patch: pytest.MonkeyPatch, name: str, find: str, put: str) -> None:
    """Change one of the inbox's queries."""
    real = getattr(sql._queries, name)
    assert real.sqlite.count(find) == 1
    patch.setattr(sql._queries, name, replace(real, sqlite=real.sqlite.replace(find, put)))


def a_key_is_marked_by_whoever_says_so(patch: pytest.MonkeyPatch) -> None:
    plant(patch, "mark", "AND inbox.lease_id = rows.lease_id AND", "AND")


def a_lease_that_still_runs_goes_to_the_next_caller(patch: pytest.MonkeyPatch) -> None:
    plant(patch, "begin", "inbox.lease_until <= excluded.last_seen", "inbox.lease_until <= excluded.lease_until")


def a_processed_key_is_handled_again(patch: pytest.MonkeyPatch) -> None:
    real = sql.SqlInbox._begun

    def begun(self: sql.SqlInbox, item: Any, row: Any) -> Begun:
        answer = real(self, item, row)
        return Begun("Acquired", item.lease_id) if answer.status == "Processed" else answer

    patch.setattr(sql.SqlInbox, "_begun", begun)


def nobody_renews(patch: pytest.MonkeyPatch) -> None:
    async def rest(self: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(once._Held, "_renew", rest)


def a_body_goes_on_without_its_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(once._Held, "_lose", lambda self: None)


def a_body_that_fails_is_marked_all_the_same(patch: pytest.MonkeyPatch) -> None:
    async def mark(self: Any) -> None:
        await self._inbox.mark_processed(self._key, self._lease_id)

    patch.setattr(once._Held, "let_go", mark)


def problems(plans: list[InboxPlan]) -> Iterator[str]:
    return (problem for plan in plans for problem in play_inbox(plan).problems)


@pytest.mark.parametrize("plans", [QUIET, LONG, FAILING, STRUCK, CUT])
def test_nothing_is_reported_of_the_real_inbox(plans: list[InboxPlan]) -> None:
    assert list(problems(plans[:FEW])) == []


@pytest.mark.parametrize(
    ("bug", "plans", "report"),
    [
        (a_key_is_marked_by_whoever_says_so, STRUCK, "changed k"),
        (a_lease_that_still_runs_goes_to_the_next_caller, LONG, "which n"),
        (a_processed_key_is_handled_again, QUIET, "which was acknowledged as processed"),
        (nobody_renews, LONG, "ran out although"),
        (a_body_goes_on_without_its_lease, CUT, "was at it"),
        (a_body_that_fails_is_marked_all_the_same, FAILING, "who did not do it"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_bug_in_the_inbox_is_reported(
    bug: Any, plans: list[InboxPlan], report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    assert any(report in problem for problem in problems(plans))
