import time
from contextlib import suppress
from email.utils import parseaddr

import pytest
from email_validator import EmailNotValidError, validate_email
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.outbound.contacts import bare_mailbox, canonical, device_token, mailbox, phone, url
from pillarbox.outbound.model import CHANNELS


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("alice@example.com", "alice@example.com"),
        ("  Alice@Example.COM\t", "alice@example.com"),
        ("Alice+News@Example.com", "alice+news@example.com"),
        ("a.b-c_d@sub.example.co.uk", "a.b-c_d@sub.example.co.uk"),
        ("o'brien@example.com", "o'brien@example.com"),
        ("alice@Bücher.example", "alice@xn--bcher-kva.example"),
        ("alice@XN--BCHER-KVA.example", "alice@xn--bcher-kva.example"),
        ("alice@\uff45\uff58ample.com", "alice@example.com"),
        ("ZOË@example.com", "zoë@example.com"),
        ("zoe\u0308@example.com", "zoë@example.com"),
        ("alice@host.local", "alice@host.local"),
        ("alice@example.test", "alice@example.test"),
        ("alice@example.invalid", "alice@example.invalid"),
        ("a@b.c", "a@b.c"),
        (f"{'a' * 242}@example.com", f"{'a' * 242}@example.com"),
    ],
)
def test_however_a_mailbox_is_written_it_is_stored_once(written: str, stored: str) -> None:
    assert bare_mailbox("to", written) == stored
    assert mailbox("to", written) == (stored, stored)
    assert canonical("email", written) == canonical("all", written) == stored


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "alice",
        "@example.com",
        "alice@",
        "alice@localhost",
        "alice@example",
        "alice@example.1",
        "alice@example..com",
        "alice@.example.com",
        "alice@example.com.",
        "alice@-example.com",
        ".alice@example.com",
        "alice.@example.com",
        "al ice@example.com",
        "alice@exam ple.com",
        "alice@@example.com",
        "alice@bob@example.com",
        '"alice bob"@example.com',
        "alice@[127.0.0.1]",
        "alice(comment)@example.com",
        "a@b.c, e@x.y",
        "a@b.c,e@x.y",
        "a@b.c; e@x.y",
        "a@b.c e@x.y",
        "g: a@b.c, e@x.y;",
        "undisclosed-recipients:;",
        "alice@example.com\r\nBcc: eve@example.com",
        "alice@example.com\n",
        "\ralice@example.com",
        "alice\0@example.com",
        "alice@example.com\x85",
        "alice@example.com\u2028",
        "alice@example.com\ud800",
        "alice\x7f@example.com",
        "alice\uff20example.com",
        "alice@xn--\xfc.example",
        "alice@xn--a.example",
        f"{'a' * 243}@example.com",
        f"alice@{'a' * 64}.com",
        "a@" + "b." * 5000 + "c",
        "mailto:alice@example.com",
        "<<alice@example.com>>",
        "alice@example.com>",
        "<alice@example.com",
        "alice@example.com <eve@example.com>",
        "Alice <alice@example.com>, Eve <eve@example.com>",
        "Alice <alice@example.com> Eve",
        "Doe, John <john@example.com>",
        "team: Alice <alice@example.com>",
        'Al"ice <alice@example.com>',
        '"Alice" Smith" <alice@example.com>',
        '"Alice\\" <alice@example.com>',
        "Alice\r\nBcc: eve@example.com <alice@example.com>",
        "Alice <>",
        f"{'n' * 257} <alice@example.com>",
    ],
)
def test_what_is_not_exactly_one_mailbox_is_refused(text: str) -> None:
    for check in (mailbox, bare_mailbox):
        with pytest.raises(InvalidInput) as caught:
            check("cc.0", text)
        assert caught.value.field == "cc.0"
        assert "eve" not in str(caught.value)
        assert "example.com" not in caught.value.detail.replace("user@example.com", "").replace("john@example.com", "")


@pytest.mark.parametrize(
    ("written", "shown", "name"),
    [
        ("Acme <Hello@Acme.example>", "Acme <hello@acme.example>", "Acme"),
        ("<hello@acme.example>", "hello@acme.example", ""),
        ('"" <hello@acme.example>', "hello@acme.example", ""),
        ('"Acme" <hello@acme.example>', "Acme <hello@acme.example>", "Acme"),
        ("Acme  Rocket   Co <hello@acme.example>", "Acme Rocket Co <hello@acme.example>", "Acme Rocket Co"),
        ("Acme Inc. <hello@acme.example>", '"Acme Inc." <hello@acme.example>', "Acme Inc."),
        ('"Doe, John" <hello@acme.example>', '"Doe, John" <hello@acme.example>', "Doe, John"),
        (r'"The \"Best\" \\o/" <hello@acme.example>', r'"The \"Best\" \\o/" <hello@acme.example>', r'The "Best" \o/'),
        ("Zoë Brück <hello@acme.example>", "Zoë Brück <hello@acme.example>", "Zoë Brück"),
        ("Acme<hello@acme.example>", "Acme <hello@acme.example>", "Acme"),
    ],
)
def test_a_name_before_a_mailbox_is_kept_and_quoted_where_it_must_be(written: str, shown: str, name: str) -> None:
    assert mailbox("from", written) == (shown, "hello@acme.example")
    assert parseaddr(shown) == (name, "hello@acme.example")


def test_a_recipient_has_no_name() -> None:
    with pytest.raises(InvalidInput, match="exactly one mailbox"):
        bare_mailbox("to", "Alice <alice@example.com>")


@given(st.text(max_size=40))
def test_any_name_that_is_taken_is_read_back_alike(name: str) -> None:
    quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
    try:
        shown, address = mailbox("from", f"{quoted} <hello@acme.example>")
    except InvalidInput:
        return
    assert address == "hello@acme.example"
    read = parseaddr(shown)
    assert (read[0].split(), read[1]) == (name.split(), address)
    assert mailbox("from", shown) == (shown, address)


local_parts = st.text("abzABZ019._+-!#'~{|", min_size=1, max_size=12)
domains = st.lists(st.text("abzABZ019-_", min_size=1, max_size=8), min_size=1, max_size=4).map(".".join)


@given(local_parts, domains)
def test_plain_mailboxes_are_judged_as_the_library_judges_them(local: str, domain: str) -> None:
    address = f"{local}@{domain}"
    try:
        validate_email(address, check_deliverability=False, test_environment=True)
    except EmailNotValidError:
        with pytest.raises(InvalidInput):
            bare_mailbox("to", address)
    else:
        assert bare_mailbox("to", address) == address.lower()


@given(st.text(max_size=12), st.text(max_size=12))
def test_a_canonical_mailbox_is_its_own_canonical_form(local: str, domain: str) -> None:
    try:
        stored = bare_mailbox("to", f"{local}@{domain}.example")
    except InvalidInput:
        return
    assert bare_mailbox("to", stored) == stored
    assert canonical("email", stored.upper() if stored.isascii() else stored) == stored


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("+15005550006", "+15005550006"),
        (" +1 (500) 555-0006 ", "+15005550006"),
        ("+1.500.555.0006", "+15005550006"),
        ("+1\u00a0500\u2011555\u20110006", "+15005550006"),
        ("+15551234567", "+15551234567"),
        ("+32 476 12 34 56", "+32476123456"),
        ("+32 0476 12 34 56", "+32476123456"),
        ("+32 (0)476 12 34 56", "+32476123456"),
        ("+44 7700 900123", "+447700900123"),
        ("+39 06 6982 1234", "+390669821234"),
        ("+491701234567", "+491701234567"),
        ("+819012345678", "+819012345678"),
    ],
)
def test_however_a_number_is_written_it_is_stored_once(written: str, stored: str) -> None:
    assert phone("to", written) == stored
    for channel in ("sms", "voice", "whatsapp", "all"):
        assert canonical(channel, written) == stored


@pytest.mark.parametrize("contact", ["US.13491208655302741918", "DE.ENT.1181579921", "group:Y2FwaV9ncm91cDox"])
def test_whatsapp_knows_people_without_numbers_and_groups(contact: str) -> None:
    assert canonical("whatsapp", contact) == canonical("all", contact) == contact
    with pytest.raises(InvalidInput):
        canonical("sms", contact)


@pytest.mark.parametrize("contact", ["group:", "group:two words", "US.", "us.134", "US.13 4", "Y2FwaV9ncm91cDox"])
def test_whatsapp_knows_nothing_else(contact: str) -> None:
    with pytest.raises(InvalidInput):
        canonical("whatsapp", contact)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "++15005550006",
        "15005550006",
        "0015005550006",
        "0476 12 34 56",
        "+05005550006",
        "+1500555000",
        "+150055500066666",
        "+1234567890123456",
        "+999123456789",
        "+1500555000a",
        "+43000000",
        "+1800FLOWERS",
        "tel:+15005550006",
        "+15005550006x12",
        "+15005550006;ext=12",
        "+15005550006,+15005550007",
        "+15005550006\n",
        "+1500555\0006",
        "+١٥٠٠٥٥٥٠٠٠٦",
        "+" + "1" * 5000,
        "alice@example.com",
    ],
)
def test_what_is_not_an_international_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        phone("to", text)
    assert caught.value.field == "to"
    assert "500555" not in caught.value.detail.replace("+15005550006", "")


@given(st.text("+0123456789 ()-.", max_size=20).map(lambda rest: f"+{rest}"))
def test_a_canonical_number_is_its_own_canonical_form(written: str) -> None:
    try:
        stored = phone("to", written)
    except InvalidInput:
        return
    assert phone("to", stored) == stored


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("https://example.com/hook", "https://example.com/hook"),
        ("HTTPS://Example.COM/Hook?A=b", "https://example.com/Hook?A=b"),
        ("https://example.com:443/hook", "https://example.com/hook"),
        ("https://example.com:8443/hook", "https://example.com:8443/hook"),
        ("https://example.com", "https://example.com/"),
        ("https://example.com?a=https://b/c", "https://example.com/?a=https://b/c"),
        ("http://example.com:80/", "http://example.com/"),
        ("https://example.com/hook#part", "https://example.com/hook"),
        ("https://example.com/https://example.com/", "https://example.com/https://example.com/"),
    ],
)
def test_a_url_is_the_same_however_its_host_is_written(written: str, stored: str) -> None:
    assert url("to", written) == stored
    assert canonical("webhook", written) == canonical("all", written) == stored
    assert url("to", stored) == stored


@pytest.mark.parametrize("text", ["", "example.com", "https://", "https://a b/", "https://u:p@example.com/", "//x/y"])
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        url("to", text)


def test_a_device_token_keeps_its_case_unless_it_is_apples() -> None:
    assert device_token("to", " fGx9:APA91bH_-Q ") == "fGx9:APA91bH_-Q"
    assert device_token("to", "AB" * 32) == canonical("all", "AB" * 32) == "ab" * 32


@pytest.mark.parametrize("text", ["", "a b", "a\nb", "a\0", "x" * 4097])
def test_what_is_no_device_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        device_token("to", text)


def test_other_contacts_are_kept_as_they_are() -> None:
    assert canonical("all", "user-Q") == canonical("inapp", "user-Q") == "user-Q"
    for channel, contact in (
        *(("telegram", "-100123456"), ("telegram", "12345678"), ("telegram", "@chan"), ("push", "AbC:dEf")),
        *(("inapp", "user@host"), ("inapp", "@user:host.example"), ("push", "f" * 300)),
    ):
        assert canonical("all", contact) == canonical(channel, contact) == contact


@pytest.mark.parametrize("written", ["0476 12 34 56", "+1500", "a@b@c", "ann@example.com,", "https://a b/"])
def test_what_is_plainly_meant_as_a_number_mailbox_or_url_must_be_one(written: str) -> None:
    with pytest.raises(InvalidInput):
        canonical("all", written)


@given(st.sampled_from([*CHANNELS, "all"]), st.text() | st.text("@+.:/<>\"', 0a", max_size=30))
def test_a_contact_is_taken_or_refused_by_its_field(channel: str, contact: str) -> None:
    try:
        stored = canonical(channel, contact)
    except InvalidInput as refused:
        stored, field = None, refused.field
    assert stored is None or canonical(channel, stored) == stored
    assert stored is not None or field == "contact"


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a@", "<", '"', "\\", "+", "1 ", "-", "<a@b.c>,", "ö", "\u0338", "((", "a-"]
)
def test_a_hundred_thousand_characters_are_refused_at_once(unit: str) -> None:
    began = time.thread_time()
    for length in (250, 500, 100_000):
        for channel in ("email", "sms", "webhook", "all"):
            with suppress(InvalidInput):
                canonical(channel, (unit * length)[:length])
    assert time.thread_time() - began < 1.0
