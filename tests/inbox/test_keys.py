import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.inbox import KeyParts, inbox_key, key_parts
from pillarbox.inbox.header import idempotency_key

PART = st.text(st.characters(exclude_categories=["Cs"])) | st.text("%:35Aa")


def test_the_parts_stand_one_after_another() -> None:
    assert inbox_key("orders", "billing", "invoice", "42") == "orders:billing:invoice:42"
    assert inbox_key("a:b", "50%", "", "x%3Ay") == "a%3Ab:50%25::x%253Ay"


@given(PART, PART, PART, PART)
def test_the_parts_can_be_told_apart_again(bus: str, group: str, alias: str, id_key: str) -> None:
    assert key_parts(inbox_key(bus, group, alias, id_key)) == KeyParts(bus, group, alias, id_key)


@pytest.mark.parametrize("key", ["", "a:b:c", "a:b:c:d:e"])
def test_another_number_of_parts_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="four parts"):
        key_parts(key)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"abc", "abc"),
        (b'"abc"', "abc"),
        (b'  "abc"\t', "abc"),
        (b'"a \\"b\\" \\\\ c"', 'a "b" \\ c'),
        (b'" "', " "),
        (b"a, b; c=d", "a, b; c=d"),
        (b"8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        (b"x" * 255, "x" * 255),
        (b'"' + b"x" * 255 + b'"', "x" * 255),
    ],
)
def test_a_key_is_the_same_bare_and_quoted(value: bytes, key: str) -> None:
    assert idempotency_key([(b"host", b"h"), (b"Idempotency-Key", value)]) == key


@pytest.mark.parametrize(
    "value",
    [b"", b'""', b" ", b'"abc', b'abc"', b'a"b', b'"a"b"', b"x" * 256, b"\xc3\xa9", b"a\tb", b'"\\a"', b"a\x00b"],
)
def test_a_malformed_key_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        idempotency_key([(b"idempotency-key", value)])
    assert refused.value.field == "Idempotency-Key"


def test_two_keys_are_refused_and_none_is_none() -> None:
    with pytest.raises(InvalidInput, match="once"):
        idempotency_key([(b"idempotency-key", b"a"), (b"idempotency-key", b"a")])
    assert idempotency_key([(b"host", b"h")]) is None
