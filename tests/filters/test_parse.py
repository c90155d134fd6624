"""The filter language: what can be written, and what is said of what cannot."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.filters import PIPES, WORDS, Filter, Term, Value, parse_filter
from pillarbox.filters.words import CHANNELS, STATUSES
from pillarbox.hooks.model import STATUSES as HOOK_STATUSES
from pillarbox.inbound.model import STATUSES as INBOUND_STATUSES
from pillarbox.outbound import model as outbound


def said(text: str) -> str:
    with pytest.raises(InvalidInput) as refused:
        parse_filter(text)
    assert refused.value.field == "filter"
    return refused.value.detail


def test_the_words_are_those_of_the_pipes() -> None:
    assert outbound.CHANNELS == CHANNELS
    assert dict(STATUSES) == {
        "outbound": outbound.STATUSES,
        "inbound": INBOUND_STATUSES,
        "hooks": HOOK_STATUSES,
    }
    assert set(WORDS["pipe"].choices) == set(PIPES)


def test_terms_values_quotes_negation_and_comparisons_are_read() -> None:
    read = parse_filter(
        r'  Status:failed,RETRYING -channel:sms tag:"two words","a\"b\\" age:>5m  priority:<=50 attempts:2 '
    )
    assert read.terms == (
        Term("status", (Value("failed", "failed"), Value("retrying", "retrying"))),
        Term("channel", (Value("sms", "sms"),), negated=True),
        Term("tag", (Value("two words", "two words"), Value('a"b\\', 'a"b\\'))),
        Term("age", (Value(timedelta(minutes=5), ">5m", ">"),)),
        Term("priority", (Value(50, "<=50", "<="),)),
        Term("attempts", (Value(2, "2"),)),
    )
    assert parse_filter("") == Filter()
    assert str(read) == r'status:failed,retrying -channel:sms tag:"two words","a\"b\\" age:>5m priority:<=50 attempts:2'


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=60),
        min_size=1,
        max_size=5,
    )
)
def test_what_is_written_out_is_read_again(tags: list[str]) -> None:
    written = Filter((Term("tag", tuple(Value(tag, tag) for tag in tags)),))
    assert parse_filter(str(written)) == written


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        read = parse_filter(text)
    except InvalidInput as refused:
        told = refused
    else:
        assert parse_filter(str(read)) == read
        return
    assert told.field == "filter"
    assert told.detail.endswith(".")


@pytest.mark.parametrize(
    ("text", "names", "tells"),
    [
        ("hello", "hello", "Known words: status, pipe"),
        ("status:failed world", "world", "NAME:VALUE"),
        ("colour:red", "colour", "Known words"),
        ("status:lost", "status", "pending, processing, retrying"),
        ("channel:pigeon", "channel", "email, sms"),
        ("status:", "status", "needs a value"),
        ("status:failed,", "status", "needs a value"),
        ('tag:"open', "tag", "quotes"),
        ('tag:"a"b', "tag", "blanks or a comma"),
        ("age:5m", "age", "age:>5m"),
        ("age:>5y", "age", "age:>5m"),
        ("priority:high", "priority", "priority:<50"),
        ("tenant:" + "x" * 64, "", "63"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_could_stand_there(text: str, names: str, tells: str) -> None:
    detail = said(text)
    assert names in detail
    assert tells in detail


def test_a_filter_is_bounded() -> None:
    assert "1000" in said("tag:" + "x" * 1000)
    assert "20 terms" in said("tag:x " * 21)
    assert "20 values" in said("tag:" + ",".join("x" * 21))
