import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.outbound.segments import segments


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("", ("gsm-7", 1)),
        ("a" * 160, ("gsm-7", 1)),
        ("a" * 161, ("gsm-7", 2)),
        ("a" * 306, ("gsm-7", 2)),
        ("a" * 307, ("gsm-7", 3)),
        ("a" * 1600, ("gsm-7", 11)),
        ("€" * 80, ("gsm-7", 1)),
        ("€" * 81, ("gsm-7", 2)),
        ("a" * 159 + "€", ("gsm-7", 2)),
        # 153 is odd: the last place of each part is lost to a character that takes two.
        ("€" * 152, ("gsm-7", 2)),
        ("€" * 153, ("gsm-7", 3)),
        ("Ω£\n[x]", ("gsm-7", 1)),
        ("`" * 70, ("ucs-2", 1)),
        ("ы" * 70, ("ucs-2", 1)),
        ("ы" * 71, ("ucs-2", 2)),
        ("ы" * 134, ("ucs-2", 2)),
        ("ы" * 135, ("ucs-2", 3)),
        ("😀" * 35, ("ucs-2", 1)),
        ("😀" * 36, ("ucs-2", 2)),
        ("😀" * 66, ("ucs-2", 2)),
        ("😀" * 67, ("ucs-2", 3)),
        ("a" * 69 + "ы", ("ucs-2", 1)),
    ],
)
def test_a_text_is_counted_as_networks_count_it(text: str, counted: tuple[str, int]) -> None:
    assert segments(text) == counted


@given(st.text(max_size=400), st.characters())
def test_a_longer_text_never_takes_fewer_segments(text: str, more: str) -> None:
    assert segments(text + more)[1] >= segments(text)[1]
