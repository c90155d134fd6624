from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import parseaddr
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.outbound.mime import build_mail, safe_filename
from pillarbox.outbound.provider import Attachment, Outgoing

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
PLAIN = Outgoing(
    message_id="0197-abc",
    tenant_id="acme",
    channel="email",
    to="ann@example.com",
    attempt=1,
    at=NOON,
    created_at=NOON,
    sender="Acme <hello@acme.example>",
    subject="Welcome",
    text="Hello.",
)
INJECTIONS = [
    "\r\nBcc: x@evil.example",
    "\nX: y",
    "\rX: y",
    "\x00",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\u2028",
    "\u2029",
    "\ud800",
]


def a_message(**changes: Any) -> Outgoing:
    return replace(PLAIN, **changes)


def parsed(message: Outgoing) -> EmailMessage:
    read = message_from_bytes(build_mail(message).content, policy=SMTP)
    assert isinstance(read, EmailMessage)
    assert not read.defects
    return read


def part(read: EmailMessage, kind: str) -> str:
    body = read.get_body((kind,))
    assert body is not None
    return str(body.get_content())


def header_lines(message: Outgoing) -> list[bytes]:
    return build_mail(message).content.partition(b"\r\n\r\n")[0].split(b"\r\n")


def test_a_message_carries_its_marks() -> None:
    mail = build_mail(PLAIN)
    read = parsed(PLAIN)
    assert (mail.sender, mail.recipients) == ("hello@acme.example", ("ann@example.com",))
    assert mail.message_id == read["Message-ID"] == "<0197-abc@acme.example>"
    assert (read["From"], read["To"]) == ("Acme <hello@acme.example>", "ann@example.com")
    assert (read["Subject"], read["X-Pillarbox-Id"]) == ("Welcome", "0197-abc")
    assert (read["Auto-Submitted"], read["MIME-Version"]) == ("auto-generated", "1.0")
    assert read["Date"].datetime == NOON
    assert part(read, "plain") == "Hello.\r\n"
    assert "List-Unsubscribe" not in read


def test_every_attempt_sends_the_same_bytes() -> None:
    files = (Attachment("a.pdf", "application/pdf", b"x" * 100),)
    first = a_message(html="<p>Hi</p>", attachments=files)
    assert build_mail(replace(first, attempt=4, at=NOON.replace(hour=20))) == build_mail(first)


def test_bcc_is_on_the_envelope_alone() -> None:
    message = a_message(cc=("Bob <bob@example.com>", "ANN@example.com"), bcc=("eve@example.com", "bob@example.com"))
    mail = build_mail(message)
    assert mail.recipients == ("ann@example.com", "bob@example.com", "eve@example.com")
    assert b"eve" not in mail.content
    assert parsed(message)["Cc"] == "Bob <bob@example.com>, ann@example.com"
    assert "Bcc" not in parsed(message)


def test_text_and_html_are_alternatives_before_the_attachments() -> None:
    files = (Attachment("a.pdf", "application/pdf", bytes(range(256)) * 9), Attachment("b.txt", "text/plain", b"hi"))
    read = parsed(a_message(html="<p>Grüße</p>", attachments=files))
    assert [one.get_content_type() for one in read.walk()] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "text/html",
        "application/pdf",
        "text/plain",
    ]
    assert part(read, "plain") == "Hello.\r\n"
    assert part(read, "html") == "<p>Grüße</p>\r\n"
    assert [one.get_filename() for one in read.iter_attachments()] == ["a.pdf", "b.txt"]
    assert [one.get_payload(decode=True) for one in read.iter_attachments()] == [bytes(range(256)) * 9, b"hi"]


def test_html_alone_needs_no_alternative() -> None:
    read = parsed(a_message(text=None, html="<p>Hi</p>"))
    assert read.get_content_type() == "text/html"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=400))
def test_any_text_arrives_with_its_lines_and_within_what_every_server_takes(text: str) -> None:
    content = build_mail(a_message(text=text)).content
    assert content.isascii()
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert not set(content.replace(b"\r\n", b"")) & set(b"\r\n")
    payload = message_from_bytes(content, policy=SMTP).get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().rstrip("\r\n") == text.replace("\r\n", "\n").replace("\r", "\n").replace(
        "\n", "\r\n"
    ).rstrip("\r\n")


@pytest.mark.parametrize(
    "text", ["x" * 5000, "é" * 5000, "x " * 3000 + "é", "a\rb\nc\r\nd", "From me\n.\n..\n", "t \t\n"]
)
def test_long_lines_and_odd_line_ends_are_made_fit(text: str) -> None:
    assert part(parsed(a_message(text=text)), "plain").split() == text.split()
    content = build_mail(a_message(text=text)).content
    assert max(map(len, content.split(b"\r\n"))) <= 998
    assert b"\r" not in content.replace(b"\r\n", b"")


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=300))
def test_any_subject_arrives_in_lines_of_ascii(subject: str) -> None:
    message = a_message(subject=subject)
    assert all(line.isascii() and len(line) <= 998 for line in header_lines(message))
    assert parsed(message)["Subject"].split() == subject.split()


@pytest.mark.parametrize(
    ("given_name", "read_name"),
    [
        ("Ünal <hello@acme.example>", "Ünal"),
        ('"Müller, Jörg" <hello@acme.example>', "Müller, Jörg"),
        ('"Doe, John" <hello@acme.example>', "Doe, John"),
        ("=?utf-8?q?Evil?= <hello@acme.example>", "=?utf-8?q?Evil?="),
        ("雪" * 60 + " <hello@acme.example>", "雪" * 60),
    ],
)
def test_a_senders_name_is_shown_as_it_was_given(given_name: str, read_name: str) -> None:
    content = build_mail(a_message(sender=given_name)).content
    name, address = parseaddr(str(message_from_bytes(content)["From"]).replace("\r\n", ""))
    assert (str(make_header(decode_header(name))), address) == (read_name, "hello@acme.example")


def test_marketing_can_be_left_with_one_click() -> None:
    url = "https://mail.acme.example/u/" + "a" * 300
    lines = header_lines(a_message(unsubscribe_url=url))
    assert f"List-Unsubscribe: <{url}>".encode() in lines
    assert b"List-Unsubscribe-Post: List-Unsubscribe=One-Click" in lines


def test_long_ids_stay_in_one_piece() -> None:
    reference = "<" + "a" * 200 + "@example.com>"
    lines = header_lines(a_message(message_id="m" * 120, headers={"References": f"{reference} {reference}"}))
    assert b"Message-ID: <" + b"m" * 120 + b"@acme.example>" in lines
    assert b"References: " + reference.encode() in lines
    assert b" " + reference.encode() in lines


def test_callers_headers_go_along_and_ours_give_way_to_theirs() -> None:
    read = parsed(a_message(headers={"X-Campaign": "Grüße", "Auto-Submitted": "auto-replied", "X-Empty": ""}))
    assert (read["X-Campaign"], read.get_all("Auto-Submitted"), read["X-Empty"]) == ("Grüße", ["auto-replied"], "")


@pytest.mark.parametrize("bad", INJECTIONS)
@pytest.mark.parametrize(
    "field", ["subject", "to", "sender", "reply_to", "cc", "bcc", "header", "message_id", "unsubscribe_url"]
)
def test_nothing_can_be_slipped_into_a_header(field: str, bad: str) -> None:
    fields: dict[str, dict[str, Any]] = {
        "subject": {"subject": f"a{bad}b"},
        "to": {"to": f"ann{bad}@example.com"},
        "sender": {"sender": f"A{bad}c <hello@acme.example>"},
        "reply_to": {"reply_to": f"a@example.com{bad}x"},
        "cc": {"cc": (f"a{bad}@example.com",)},
        "bcc": {"bcc": (f"a{bad}@example.com",)},
        "header": {"headers": {"X-A": f"a{bad}b"}},
        "message_id": {"message_id": f"a{bad}b"},
        "unsubscribe_url": {"unsubscribe_url": f"https://a.example/{bad}x"},
    }
    with pytest.raises(InvalidInput):
        build_mail(a_message(**fields[field]))


@pytest.mark.parametrize(
    "two", ["a@b.example, e@x.example", "g: a@b.example;", "a@b.example e@x.example", "", "a@b.example>"]
)
@pytest.mark.parametrize("field", ["to", "sender", "cc", "bcc"])
def test_a_field_holds_exactly_one_mailbox(field: str, two: str) -> None:
    with pytest.raises(InvalidInput):
        build_mail(a_message(**{field: (two,) if field in ("cc", "bcc") else two}))


@pytest.mark.parametrize(
    "name", ["From", "bcc", "Content-Type", "MIME-Version", "List-Unsubscribe", "X-A: b", "X A", ""]
)
def test_callers_may_not_set_what_is_ours(name: str) -> None:
    with pytest.raises(InvalidInput):
        build_mail(a_message(headers={name: "x"}))


@pytest.mark.parametrize("field", ["text", "html"])
def test_nul_is_refused_in_bodies(field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        build_mail(a_message(**{field: "a\0b"}))


def test_a_word_too_long_for_any_line_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"headers\.X-Long"):
        build_mail(a_message(headers={"X-Long": "x" * 1200}))


def test_a_message_without_a_sender_is_refused() -> None:
    with pytest.raises(InvalidInput, match="from"):
        build_mail(a_message(sender=None))


@pytest.mark.parametrize(
    ("filename", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\system.ini", "system.ini"),
        ("..", "attachment"),
        ("", "attachment"),
        ("a\r\nX: y.txt", "a__X_ y.txt"),
        ("a\0b\u2028c.txt", "a_b_c.txt"),
        ('say "hi".txt', "say _hi_.txt"),
        ("Übersicht 雪.pdf", "Übersicht 雪.pdf"),
    ],
)
def test_filenames_are_harmless(filename: str, safe: str) -> None:
    assert safe_filename(filename) == safe
    [file] = parsed(a_message(attachments=(Attachment(filename, "text/csv", b"1"),))).iter_attachments()
    assert (file.get_filename(), file.get_content_type()) == (safe, "text/csv")


def test_a_long_filename_beyond_ascii_fits_into_lines() -> None:
    message = a_message(attachments=(Attachment("雪" * 190 + ".pdf", "application/pdf", b"1"),))
    assert max(map(len, build_mail(message).content.split(b"\r\n"))) <= 998
    [file] = parsed(message).iter_attachments()
    assert file.get_filename() == "雪" * 190 + ".pdf"


@pytest.mark.parametrize(
    ("content_type", "read_type"),
    [
        ("image/png", "image/png"),
        ("text/plain; charset=latin-1", "text/plain"),
        ("message/rfc822", "application/octet-stream"),
        ("multipart/mixed; boundary=x", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("a/b\r\nX-Evil: 1", "application/octet-stream"),
    ],
)
def test_an_attachments_type_never_changes_the_messages_shape(content_type: str, read_type: str) -> None:
    read = parsed(a_message(attachments=(Attachment("f", content_type, b"\xff\x00"),)))
    [file] = read.iter_attachments()
    assert (file.get_content_type(), file.get_payload(decode=True)) == (read_type, b"\xff\x00")
    assert not any(one["X-Evil"] for one in read.walk())


def test_only_local_parts_beyond_ascii_need_smtputf8() -> None:
    assert not build_mail(a_message(to="ann@bücher.example")).needs_utf8
    assert b"xn--bcher-kva.example" in build_mail(a_message(to="ann@bücher.example")).content
    for changes in ({"to": "jörg@example.com"}, {"cc": ("jörg@example.com",)}, {"bcc": ("jörg@example.com",)}):
        assert build_mail(a_message(**changes)).needs_utf8
    content = build_mail(a_message(to="jörg@example.com")).content
    assert message_from_bytes(content, policy=SMTPUTF8)["To"] == "jörg@example.com"
