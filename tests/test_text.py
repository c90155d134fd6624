import tracemalloc
from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.text import check_json


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


def _nested(levels: int, inmost: Any) -> Any:
    for _ in range(levels):
        inmost = {"k" * 80: inmost}
    return inmost
