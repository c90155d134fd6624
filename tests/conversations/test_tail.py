"""Following a transcript through everything that can happen to a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from pillarbox.conversations.model import Cursor
from pillarbox.conversations.tail import read_on, read_over
from pillarbox.conversations.transcript import said_in


def claude(text: str, at: str = "2026-01-01T00:00:00.000Z", **more: Any) -> str:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    message = {"role": "assistant", "content": content}
    return json.dumps({"type": "assistant", "timestamp": at, "message": message, **more})


def codex(text: str, role: str = "assistant") -> str:
    payload = {"type": "message", "role": role, "content": [{"type": "output_text", "text": text}]}
    return json.dumps({"type": "response_item", "timestamp": "2026-01-01T00:00:00.000Z", "payload": payload})


def words(path: Path, cursor: Cursor, since: str = "") -> tuple[list[str], Cursor]:
    reading = read_over(str(path), cursor, since=since)
    return ([each.text for each in reading.said], reading.cursor) if reading else ([], cursor)


@pytest.mark.parametrize("spoken", [claude("hello"), codex("hello")])
def test_both_agents_words_are_understood(spoken: str) -> None:
    assert (said := said_in(spoken.encode())) is not None
    assert said.text == "hello"


@pytest.mark.parametrize(
    "line",
    [
        claude("a helper's", isSidechain=True),
        codex("a person's", role="user"),
        json.dumps({"type": "user", "message": {"role": "user", "content": "assistant"}}),
        json.dumps({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "tool_use"}]}}),
        json.dumps({"type": "event_msg", "payload": {"type": "agent_message", "message": "assistant"}}),
        json.dumps({"type": "response_item", "payload": {"type": "reasoning", "role": "assistant"}}),
        '{"type": "assistant", "message": ' + "[" * 50_000,
        '"assistant"',
        '["assistant"]',
        '{"type": "assistant", "message": "\\ud800',
        "",
    ],
)
def test_what_is_not_for_the_user_is_passed_over(line: str) -> None:
    assert said_in(line.encode()) is None


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    first, second = claude("one"), claude("two")
    file.write_text(f"{first}\n{second[:30]}")
    said, cursor = words(file, Cursor())
    assert said == ["one"]
    assert words(file, cursor) == ([], cursor)
    file.write_text(f"{first}\n{second}\n")
    assert words(file, cursor)[0] == ["two"]


def test_a_file_that_was_cut_or_replaced_is_not_told_again(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    old = [claude("one", "2026-01-01T00:00:01Z"), claude("two", "2026-01-01T00:00:02Z")]
    file.write_text("\n".join(old) + "\n")
    said, cursor = words(file, Cursor())
    assert said == ["one", "two"]
    file.write_text(old[1] + "\n" + claude("three", "2026-01-01T00:00:03Z") + "\n")
    said, cursor = words(file, cursor)
    assert said == ["three"]
    file.write_text("")
    said, cursor = words(file, cursor)
    assert said == []
    file.write_text(claude("four", "2026-01-01T00:00:04Z") + "\n")
    assert words(file, cursor)[0] == ["four"]


def test_another_file_that_repeats_the_past_tells_only_what_is_new(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(claude("one", "2026-01-01T00:00:01Z") + "\n")
    _, cursor = words(first, Cursor())
    second.write_text("\n".join([claude("one", "2026-01-01T00:00:01Z"), claude("two", "2026-01-01T00:00:02Z"), ""]))
    assert words(second, cursor)[0] == ["two"]


def test_the_last_words_of_a_transcript_are_told_before_those_of_the_next(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one, two, three = (claude(text, f"2026-01-01T00:00:0{text}Z") for text in "123")
    first.write_text(f"{one}\n")
    _, cursor = words(first, Cursor())
    first.write_text(f"{one}\n{two}\n")
    second.write_text(f"{two}\n{three}\n")
    said, after = words(second, cursor)
    assert said == ["2", "3"]
    assert words(second, after) == ([], after)
    first.write_text(f"{claude('of another', '2026-01-01T00:00:09Z')}\n" * 3)
    assert words(second, cursor)[0] == ["2", "3"], "what took its place is nobody's rest"
    first.unlink()
    assert words(second, cursor)[0] == ["2", "3"]


def test_the_last_words_of_a_transcript_are_told_whatever_the_next_has_to_say(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(claude("one", "2026-01-01T00:00:01Z") + "\n")
    _, cursor = words(first, Cursor())
    with first.open("a") as file:
        file.write(claude("two", "2026-01-01T00:00:02Z") + "\n")
    second.touch()
    said, after = words(second, cursor)
    assert (said, after.source) == (["two"], str(second))
    second.write_text(claude("three", "2026-01-01T00:00:03Z") + "\n")
    assert words(second, cursor)[0] == ["two", "three"]


def test_words_that_are_added_to_a_transcript_after_it_was_left_are_told(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(f"{claude('one', '2026-01-01T00:00:01Z')}\n{claude('half', '2026-01-01T00:00:02Z')[:40]}")
    second.write_text(claude("three", "2026-01-01T00:00:03Z") + "\n")
    reading = read_over(str(first), Cursor(), since="")
    assert reading is not None
    reading = read_over(str(second), reading.cursor, since="")
    assert reading is not None
    assert [each.text for each in reading.said] == ["three"]
    first.write_text(f"{claude('one', '2026-01-01T00:00:01Z')}\n{claude('half', '2026-01-01T00:00:02Z')}\n")
    late = read_over(str(second), reading.cursor, since="", left=reading.left)
    assert late is not None
    assert [each.text for each in late.said] == ["half"], "though it was said before what was told last"
    assert late.cursor.source == str(second)
    assert read_over(str(second), late.cursor, since="", left=late.left) is None


def test_an_agent_that_returns_to_a_transcript_is_read_on_there(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(claude("one", "2026-01-01T00:00:01Z") + "\n")
    second.write_text(claude("two", "2026-01-01T00:00:09Z") + "\n")
    reading = read_over(str(first), Cursor(), since="")
    assert reading is not None
    reading = read_over(str(second), reading.cursor, since="")
    assert reading is not None
    with first.open("a") as file:
        file.write(claude("three", "2026-01-01T00:00:03Z") + "\n")
    back = read_over(str(first), reading.cursor, since="", left=reading.left)
    assert back is not None
    assert [each.text for each in back.said] == ["three"]
    assert back.left is not None
    assert back.left.source == str(second)


def test_what_was_said_before_the_session_is_nobodys_news(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join([claude("old", "2026-01-01T00:00:01Z"), claude("new", "2026-01-01T00:00:09Z"), ""]))
    assert words(file, Cursor(), since="2026-01-01T00:00:05.000000+00:00")[0] == ["new"]


def test_a_line_beyond_all_measure_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    with file.open("w") as out:
        out.write(claude("one") + "\n" + "x" * (9 * 1024 * 1024) + "\n" + claude("two") + "\n")
    assert words(file, Cursor())[0] == ["one", "two"]


def test_what_is_no_file_says_nothing(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing", Path("/dev/zero")):
        assert read_on(str(path), Cursor(), since="") is None
