"""Sets of values reach PostgreSQL as they are, each in its place."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillarbox.storage.arrays import array_literal

_AWKWARD = ("", "NULL", '"', "\\", '\\"', "{}", '","', ",", " ", "\n", "\x1f", "é", "😀")
_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.sampled_from(_AWKWARD)
_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_INSTANTS = st.builds(lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds), st.integers(0, 9))
_SETS = st.one_of(
    *(
        st.tuples(st.just(kind), st.lists(values) | st.lists(values | st.none()))
        for kind, values in (("text", _TEXTS), ("bigint", _NUMBERS), ("timestamptz", _INSTANTS))
    )
)


def _read_back(url: str, kind: str, values: Sequence[object]) -> list[object]:
    with psycopg.connect(url) as connection:
        read = connection.execute(f"SELECT unnest(%s::{kind}[])".encode(), [array_literal(values)])
        return [value for (value,) in read]


def test_a_set_of_values_comes_to_the_server_whole_and_in_order(postgres_url: str) -> None:
    @settings(max_examples=150, deadline=None)
    @given(_SETS)
    def check(given_set: tuple[str, list[object]]) -> None:
        kind, values = given_set
        assert _read_back(postgres_url, kind, values) == values

    check()


def test_a_text_that_no_column_takes_is_refused_and_moves_no_other(postgres_url: str) -> None:
    with pytest.raises((psycopg.Error, ValueError)):
        _read_back(postgres_url, "text", ["a\0b", "c"])
