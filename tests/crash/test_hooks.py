"""Agents' events on their way to a target: in order, coalesced, and past what is broken."""

import random
import threading

from pillarbox.hooks.coalesce import CRITICAL, Mark, coalesce
from tests.crash.events import (
    Event,
    attempts,
    forwarding,
    names_by_session,
    open_headless,
    post_event,
    query,
    recording_events,
    run_pillarbox,
    until_all_ended,
)
from tests.servers.daemon import Daemon

OTHERS = [f"other-{n}" for n in range(10)]


def test_an_event_that_fails_holds_back_its_own_session_and_no_other(database_url: str) -> None:
    others_came = threading.Event()

    def answer(event: Event) -> int:
        if event.name == "prompt-1":
            return 503 if event.attempt <= 3 or not others_came.wait(20) else 200
        if {each.session_id for each in target.arrivals}.issuperset(OTHERS):
            others_came.set()
        return 200

    with recording_events() as target:
        target.answer = answer
        with Daemon(database_url, settings=forwarding(target)) as daemon:
            open_headless(daemon, "failing", *OTHERS)
            post_event(daemon, "failing", "user_prompt_submit", "prompt-1")
            post_event(daemon, "failing", "agent_stop", "stop-1")
            post_event(daemon, "failing", "user_prompt_submit", "prompt-2")
            for session in OTHERS:
                post_event(daemon, session, "user_prompt_submit", "hello")
            until_all_ended(daemon)
    came = [(event.name, event.attempt) for event in target.arrivals if event.session_id == "failing"]
    assert came == [*(("prompt-1", n) for n in (1, 2, 3, 4)), ("stop-1", 1), ("prompt-2", 1)]
    assert sorted(event.session_id for event in target.arrivals if event.name == "hello") == sorted(OTHERS)


def test_of_bursts_that_came_while_the_target_was_away_exactly_the_latest_are_delivered(database_url: str) -> None:
    away = threading.Event()
    away.set()
    accepted: list[Event] = []

    def answer(event: Event) -> int:
        if away.is_set():
            return 503
        accepted.append(event)
        return 200

    chance = random.Random(4)
    bursty, critical = ["tool_use", "tool_done", "something_new"], sorted(CRITICAL)
    types = [chance.choice(critical) if chance.random() < 0.06 else chance.choice(bursty) for _ in range(700)]
    with recording_events() as target:
        target.answer = answer
        with Daemon(database_url, settings=forwarding(target)) as daemon:
            open_headless(daemon, "s1")
            numbers = [post_event(daemon, "s1", event_type, f"{n}") for n, event_type in enumerate(types)]
            target.expect(lambda events: len(events) >= 3)
            away.clear()
            until_all_ended(daemon)
            rows = _all_of(daemon, "s1")
    marks = [Mark(number, n, event_type) for n, (number, event_type) in enumerate(zip(numbers, types, strict=True))]
    expected = coalesce(marks)
    assert [event.id for event in accepted] == [mark.id for mark in expected.kept]
    by_id = {row["id"]: row for row in rows}
    assert {row["id"] for row in rows if row["status"] == "delivered"} == {mark.id for mark in expected.kept}
    for mark, latest in expected.superseded:
        row = by_id[mark.id]
        assert (row["status"], row["superseded_by_type"]) == ("superseded", mark.event_type)
        # Looks in between may have found a later one that was superseded in turn.
        while (by := by_id[row["superseded_by"]])["status"] == "superseded":
            row = by
        assert by["id"] == latest.id


def test_a_refused_event_is_dead_after_one_attempt_and_goes_behind_the_others_when_retried(database_url: str) -> None:
    refusing, away = threading.Event(), threading.Event()
    refusing.set()

    def answer(event: Event) -> int:
        if event.name == "refused":
            return 422 if refusing.is_set() else 200
        return 503 if away.is_set() else 200

    with recording_events() as target:
        target.answer = answer
        with Daemon(database_url, settings=forwarding(target)) as daemon:
            open_headless(daemon, "s1")
            refused = post_event(daemon, "s1", "user_prompt_submit", "refused")
            post_event(daemon, "s1", "agent_stop", "next")
            until_all_ended(daemon)
            row = daemon.call("GET", f"/v1/hooks/{refused}")[1]
            assert (row["status"], row["attempt_count"]) == ("dead", 1)
            assert row["last_error"] == "The target answered HTTP 422."
            assert [row["id"] for row in daemon.call("GET", "/v1/hooks?status=dead")[1]["items"]] == [refused]
            away.set()
            refusing.clear()
            post_event(daemon, "s1", "user_prompt_submit", "waiting-1")
            post_event(daemon, "s1", "agent_stop", "waiting-2")
            run_pillarbox("hooks", "retry", str(refused), "--database", database_url)
            away.clear()
            until_all_ended(daemon)
            again = daemon.call("GET", f"/v1/hooks/{refused}")[1]
    assert (again["status"], again["attempt_count"]) == ("delivered", 2)
    settled = [event.name for event in target.arrivals if event.name != "waiting-1"]
    assert settled == ["refused", "next", "waiting-2", "refused"]
    assert attempts(target.arrivals)[refused] == [1, 2]


def test_rows_whose_payload_is_broken_are_dead_at_once_and_their_session_goes_on(database_url: str) -> None:
    broken = ["", "{", "[]", '"text"', "null", '{"a": NaN}', "[" * 100_000, '{"a": "\\ud800"}x']
    with recording_events() as target:
        settings = forwarding(target)
        with Daemon(database_url, "--no-workers", settings=settings) as door:
            open_headless(door, "s1")
            post_event(door, "s1", "user_prompt_submit", "before")
            numbers = [post_event(door, "s1", "agent_stop", f"{n}") for n, _ in enumerate(broken)]
            for number, payload in zip(numbers, broken, strict=True):
                query(
                    database_url,
                    "UPDATE hook_outbox SET payload = :payload, checksum = NULL WHERE id = :id",
                    {"payload": payload, "id": number},
                )
            post_event(door, "s1", "user_prompt_submit", "behind")
        with Daemon(database_url, settings=settings) as daemon:
            until_all_ended(daemon)
            dead = [row for row in _all_of(daemon, "s1") if row["status"] == "dead"]
            assert daemon.call("GET", "/v1/status")[1]["hooks"]["dead"] == len(broken)
    assert [row["id"] for row in dead] == numbers
    assert {(row["attempt_count"], row["last_error"]) for row in dead} == {(1, "The payload is not a JSON object.")}
    assert names_by_session(target.arrivals) == {"s1": ["before", "behind"]}
    assert len(target.arrivals) == 2


def _all_of(daemon: Daemon, session: str) -> list[dict[str, object]]:
    answer = daemon.call("GET", f"/v1/hooks?session_id={session}&limit=1000")[1]
    assert answer.get("next") is None
    items: list[dict[str, object]] = answer["items"]
    return items
