import tracemalloc
from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.text import check_json, check_name, check_text, in_sight, on_one_line, printable


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("\0", "payload"),
        ({"a": [0, {"b": "\ud800"}]}, "payload.a.1.b"),
        ({"a": {"\0": 1}, "b": 2}, "payload.a.\\u0000"),
        ([[], [1], 2**64], "payload.2"),
        ([{"a": 1}, {"b": [-(2**63) - 1]}], "payload.1.b.0"),
    ],
)
def test_the_item_at_fault_is_named(value: object, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_json("payload", value)
    assert caught.value.field == field


def test_64_levels_are_taken_and_65_are_not() -> None:
    check_json("payload", _nested(64, 1))
    with pytest.raises(InvalidInput, match="nested deeper"):
        check_json("payload", _nested(65, 1))


def test_a_wide_value_at_the_end_of_a_long_path_costs_no_memory() -> None:
    value = _nested(50, [0] * 100_000)
    tracemalloc.start()
    try:
        check_json("payload", value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), True, None, 1.5, ("a", ["b"])])
def test_what_can_be_stored_is_taken(value: object) -> None:
    check_json("payload", value)
    check_json("payload", {"a": [value], "b": value})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("\0", "payload: must not contain NUL or unpaired surrogates."),
        ([2**64], "payload.0: must be a number of at most 64 bits."),
        ({"a" * 65: {"b": "\ud800"}}, f"payload.{'a' * 65}.b: must not contain NUL or unpaired surrogates."),
    ],
)
def test_a_fault_in_json_says_what_it_is(value: object, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_json("payload", value)
    assert str(caught.value) == said


def test_a_value_that_is_too_deep_says_how_deep_it_may_be() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_json("payload", _nested(65, 1))
    assert str(caught.value) == "payload: must not be nested deeper than 64 levels."


@pytest.mark.parametrize("value", ["", "a" * 5, "a\nb\t\u202e", "😀"])
def test_any_text_of_the_right_length_is_taken(value: str) -> None:
    assert check_text("title", value, most=5) == value


@pytest.mark.parametrize(
    ("value", "bounds", "said"),
    [
        ("a" * 6, {"most": 5}, "title: must have at most 5 characters."),
        ("", {"most": 5, "least": 1}, "title: must have 1 to 5 characters."),
        ("a" * 6, {"most": 5, "least": 2}, "title: must have 2 to 5 characters."),
        ("a\0", {"most": 5}, "title: must not contain NUL or unpaired surrogates."),
        ("\udfff", {"most": 5}, "title: must not contain NUL or unpaired surrogates."),
    ],
)
def test_text_that_is_refused_says_why(value: str, bounds: dict[str, int], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_text("title", value, **bounds)
    assert str(caught.value) == said


def test_a_name_is_one_line_and_not_empty() -> None:
    assert check_name("origin", "a b", most=3) == "a b"
    refused = {
        "": "origin: must have 1 to 3 characters.",
        "abcd": "origin: must have 1 to 3 characters.",
        "a\n": "origin: must not contain control characters.",
        "\u2028": "origin: must not contain control characters.",
    }
    for value, said in refused.items():
        with pytest.raises(InvalidInput) as caught:
            check_name("origin", value, most=3)
        assert str(caught.value) == said


def test_foreign_text_is_escaped_and_cut_to_what_fits() -> None:
    assert printable("a\nb\u202ec") == "a\\u000ab\\u202ec"
    assert printable(7) == "7"
    assert printable("a" * 80) == "a" * 80
    assert printable("a" * 81) == "a" * 79 + "…"
    assert printable("abcd", 4) == "abcd"
    assert printable("abcde", 4) == "abc…"
    assert printable("ab\n", 4) == "ab\\…"


def test_a_summary_is_one_line() -> None:
    assert on_one_line("  a \t\n\n b\u2028c  d ") == "a b c  d"


def test_text_of_many_lines_keeps_them_and_shows_what_hides() -> None:
    assert in_sight("a\n\tb\x1b[2J\u202e") == "a\n\tb\\u001b[2J\\u202e"


def _nested(levels: int, inmost: Any) -> Any:
    for _ in range(levels):
        inmost = {"k" * 80: inmost}
    return inmost
