"""What a chat is told of what was said: in order, whole, and in pieces that end where a reader would pause."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from pillarbox.conversations.model import Chat, Kind, Line
from pillarbox.conversations.pieces import compose, length


def line(seq: int, content: str, kind: Kind = "agent", channel_id: str | None = None) -> Line:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    origin = None if channel_id is None else "telegram"
    return Line(session_id="s", seq=seq, kind=kind, content=content, origin=origin, channel_id=channel_id, said_at=at)


def told(lines: list[Line], limit: int, channel_id: str = "here") -> list[str]:
    """Everything a chat is told, message by message."""
    texts: list[str] = []
    seq, position = 1, 0
    for _ in range(10_000):
        left = [each for each in lines if each.seq >= seq]
        chat = Chat("s", "telegram", channel_id, seq, position, None)
        text, seq, position = compose(left, chat, limit=limit)
        if not text:
            return texts
        texts.append(text)
    raise AssertionError("it never ends")


def test_what_was_said_meanwhile_becomes_one_message() -> None:
    assert told([line(1, "one"), line(2, "two"), line(3, "three")], 100) == ["one\n\ntwo\n\nthree"]


def test_a_message_that_would_be_too_long_together_is_two() -> None:
    assert told([line(1, "a" * 60), line(2, "b" * 60)], 100) == ["a" * 60, "b" * 60]


def test_a_long_text_is_cut_behind_a_paragraph_a_line_a_sentence_or_a_word() -> None:
    assert told([line(1, "a" * 60 + "\n\n" + "b" * 60)], 116) == ["a" * 60, "b" * 60]
    assert told([line(1, "a" * 60 + "\n" + "b" * 60)], 116) == ["a" * 60, "b" * 60]
    assert told([line(1, "a" * 60 + ". " + "b" * 60)], 116) == ["a" * 60 + ".", "b" * 60]
    assert told([line(1, "a" * 60 + " " + "b" * 60)], 116) == ["a" * 60, "b" * 60]
    assert told([line(1, "a" * 250)], 116) == ["a" * 100, "a" * 100, "a" * 50]


def test_a_block_of_code_that_is_cut_is_closed_and_opened_again() -> None:
    code = "```\n" + "x = 1\n" * 40 + "```\nthe end"
    pieces = told([line(1, code)], 116)
    assert len(pieces) > 2
    assert all(piece.count("```") == 2 for piece in pieces)
    assert pieces[-1].endswith("the end")


def test_people_are_not_told_what_they_said_and_others_not_what_one_asked() -> None:
    lines = [line(1, "mine", "user", "here"), line(2, "yours", "user", "there"), line(3, "agent")]
    lines += [line(4, "to me", "answer", "here"), line(5, "to you", "answer", "there")]
    assert told(lines, 100, "here") == ["yours", "agent\n\nto me"]
    assert told(lines, 100, "there") == ["mine", "agent\n\nto you"]


def test_what_people_said_elsewhere_is_never_in_one_message_with_the_agents_words() -> None:
    lines = [line(1, "agent"), line(2, "[Ada] a", "user", "there"), line(3, "[Bob] b", "user", "there"), line(4, "so")]
    assert told(lines, 100) == ["agent", "[Ada] a\n\n[Bob] b", "so"]


def test_each_piece_of_what_a_person_said_elsewhere_is_quoted() -> None:
    pieces = told([line(1, "[Ada] " + "a" * 250 + "\n> " + "b" * 30, "user", "there"), line(2, "agent")], 116)
    assert len(pieces) == 4
    assert [piece[:3] for piece in pieces] == ["[Ad", "> a", "> a", "age"]
    assert pieces[2].endswith("a\n> " + "b" * 30)
    assert all(length(piece) <= 116 for piece in pieces)


def test_emoji_count_as_the_platforms_count_them() -> None:
    assert length("😀a") == 3
    assert all(length(piece) <= 116 for piece in told([line(1, "😀" * 300)], 116))


@given(st.lists(st.text(st.sampled_from("ab \n`😀."), max_size=400), max_size=6), st.integers(101, 300))
def test_nothing_is_lost_doubled_or_too_long(contents: list[str], limit: int) -> None:
    lines = [line(seq, content) for seq, content in enumerate(contents, 1)]
    pieces = told(lines, limit)
    assert all(length(piece) <= limit for piece in pieces)

    def letters(texts: list[str]) -> str:
        return "".join(character for text in texts for character in text if character in "ab😀.")

    assert letters(pieces) == letters(contents)
