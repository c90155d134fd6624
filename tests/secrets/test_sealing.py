import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.errors import SecretUnavailable
from pillarbox.secrets import Sealer

FIRST, SECOND = bytes(range(32)), bytes(range(32, 64))
HERE = ("acme", "0190b5a0-message", "headers")
texts = st.text(max_size=20)


@given(st.binary(max_size=200), st.tuples(texts, texts))
def test_what_was_sealed_opens_where_it_belongs(plaintext: bytes, bound_to: tuple[str, str]) -> None:
    sealer = Sealer(FIRST)
    assert sealer.open(sealer.seal(plaintext, bound_to=bound_to), bound_to=bound_to) == plaintext


def test_a_sealed_value_names_its_version_and_key_and_shows_nothing_else() -> None:
    sealer = Sealer(FIRST)
    sealed = sealer.seal(b"Bearer canary", bound_to=HERE)
    assert re.fullmatch(rf"v1:{sealer.key_id}:[A-Za-z0-9_-]+", sealed)
    assert "canary" not in sealed
    assert sealer.seal(b"Bearer canary", bound_to=HERE) != sealed
    assert FIRST.hex()[:8] not in sealed


@pytest.mark.parametrize(
    "elsewhere",
    [
        ("other", "0190b5a0-message", "headers"),
        ("acme", "another", "headers"),
        ("acme", "0190b5a0-message"),
        ("acme0190b5a0-message", "headers"),
        (),
    ],
)
def test_a_value_moved_elsewhere_does_not_open(elsewhere: tuple[str, ...]) -> None:
    sealer = Sealer(FIRST)
    with pytest.raises(SecretUnavailable, match="belongs to something else"):
        sealer.open(sealer.seal(b"secret", bound_to=HERE), bound_to=elsewhere)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_only_the_same_parts_are_the_same_place(one: list[str], other: list[str]) -> None:
    sealer = Sealer(FIRST)
    sealed = sealer.seal(b"secret", bound_to=tuple(one))
    if one == other:
        assert sealer.open(sealed, bound_to=tuple(other)) == b"secret"
    else:
        with pytest.raises(SecretUnavailable):
            sealer.open(sealed, bound_to=tuple(other))


def test_every_change_of_a_sealed_value_is_noticed() -> None:
    sealer = Sealer(FIRST)
    sealed = sealer.seal(b"secret value", bound_to=HERE)
    for changed in _changes(sealed):
        with pytest.raises(SecretUnavailable):
            sealer.open(changed, bound_to=HERE)


@given(st.text())
def test_text_that_was_never_sealed_does_not_open(text: str) -> None:
    with pytest.raises(SecretUnavailable):
        Sealer(FIRST).open(text, bound_to=HERE)


def test_after_a_change_of_keys_older_values_still_open() -> None:
    sealed = Sealer(FIRST).seal(b"secret", bound_to=HERE)
    changed = Sealer(SECOND, older=[FIRST])
    assert changed.open(sealed, bound_to=HERE) == b"secret"
    assert changed.seal(b"secret", bound_to=HERE).startswith(f"v1:{Sealer(SECOND).key_id}:")


def test_without_its_key_a_value_says_which_setting_is_wrong() -> None:
    sealed = Sealer(FIRST).seal(b"secret", bound_to=HERE)
    with pytest.raises(SecretUnavailable, match=r"secrets\.key"):
        Sealer(SECOND).open(sealed, bound_to=HERE)


def test_a_contacts_hash_is_the_tenants_own_and_needs_the_key() -> None:
    hashed = Sealer(FIRST).contact_hash("acme", "alice@example.com")
    assert re.fullmatch("[0-9a-f]{32}", hashed)
    assert hashed == Sealer(FIRST).contact_hash("acme", "alice@example.com")
    others = {
        Sealer(SECOND).contact_hash("acme", "alice@example.com"),
        Sealer(FIRST).contact_hash("beta", "alice@example.com"),
        Sealer(FIRST).contact_hash("acme", "bob@example.com"),
        Sealer(FIRST).contact_hash("acmealice", "@example.com"),
    }
    assert len(others - {hashed}) == 4


@given(st.lists(st.text(max_size=60), max_size=5))
def test_a_token_carries_its_payload_through_a_url(payload: list[str]) -> None:
    sealer = Sealer(FIRST)
    token = sealer.token(tuple(payload))
    assert re.fullmatch("[A-Za-z0-9_-]+", token)
    assert sealer.read_token(token) == tuple(payload)


def test_every_change_of_a_token_makes_it_void() -> None:
    sealer = Sealer(FIRST)
    for address in ("a@b.example", "ab@b.example", "abc@b.example"):
        token = sealer.token(("acme", address))
        assert [changed for changed in _changes(token) if sealer.read_token(changed) is not None] == []


@given(st.text())
def test_text_that_is_no_token_of_ours_carries_nothing(text: str) -> None:
    assert Sealer(FIRST).read_token(text) is None


def test_a_sealed_value_is_no_token_and_a_token_no_sealed_value() -> None:
    sealer = Sealer(FIRST)
    assert sealer.read_token(sealer.seal(b'["acme"]', bound_to=()).split(":")[2]) is None
    with pytest.raises(SecretUnavailable):
        sealer.open(f"v1:{sealer.key_id}:{sealer.token(('acme',))}", bound_to=())


def test_links_outlive_a_change_of_keys_and_other_keys_cannot_read_them() -> None:
    token = Sealer(FIRST).token(("acme", "alice@example.com"))
    assert Sealer(SECOND, older=[FIRST]).read_token(token) == ("acme", "alice@example.com")
    assert Sealer(SECOND).read_token(token) is None


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer(b"short")


def test_a_sealer_shows_no_key() -> None:
    sealer = Sealer(FIRST)
    assert all(repr(part) not in repr(vars(sealer)) for part in (FIRST, vars(sealer)["_current"].sealing))


def _changes(text: str) -> list[str]:
    """Each character replaced by its neighbours in base64's alphabet, one taken away, one added, padding added."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    changed = [text[:-1], text + "A", text + "=", text + "\n", f" {text}", ""]
    for index, character in enumerate(text):
        at = alphabet.find(character)
        for step in (1, -1, 2, 16):
            changed.append(text[:index] + alphabet[(at + step) % 64] + text[index + 1 :])
    return [each for each in changed if each != text]
