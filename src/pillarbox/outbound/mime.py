"""An email as it goes over the wire: the same bytes at every attempt.

Headers are written here and not by `email.message`, which turns long ids and URLs into encoded words, lets NUL pass, and takes
longer than the sending.
"""

from __future__ import annotations

import re
from base64 import encodebytes
from binascii import b2a_qp
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256

from pillarbox.errors import InvalidInput
from pillarbox.outbound.contacts import mailbox
from pillarbox.outbound.header_rules import check_email_headers
from pillarbox.outbound.provider import Attachment, Outgoing
from pillarbox.text import check_name, check_text

_LONGEST_LINE = 998
_FOLDED_AT = 76
_LONGEST_HEADER = 64 * 1024
_LARGEST_TEXT = 1024 * 1024
_LINE_END = re.compile(r"\r\n|\r|\n")
_WORD = re.compile(" *[^ ]+")
_LONG_LINE = re.compile(rb"[^\n]{%d}" % _LONGEST_LINE)
_ASCII = bytes(range(128))
_PART_POLICY = SMTP.clone(cte_type="7bit")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?: ?;[ -~]*)?")
_UNKNOWN = "application/octet-stream"
_ENCLOSING = frozenset({"multipart", "message"})


@dataclass(frozen=True, slots=True)
class Mail:
    """An envelope and what is in it."""

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    """`to` first, everybody once."""
    content: bytes
    needs_utf8: bool
    """Whether only a server that offers SMTPUTF8 can carry it."""


def build_mail(message: Outgoing) -> Mail:
    """Put a message together, or raise `InvalidInput` for one that no mail can be made of."""
    if not message.sender:
        raise InvalidInput("from", "is needed to send mail; set it on the message or on the tenant's provider.")
    sender, sender_address = mailbox("from", message.sender)
    to, to_address = mailbox("to", message.to)
    cc = [mailbox(f"cc.{at}", text) for at, text in enumerate(message.cc)]
    bcc = [mailbox(f"bcc.{at}", text) for at, text in enumerate(message.bcc)]
    reply_to = mailbox("reply_to", message.reply_to) if message.reply_to else None
    message_id = f"<{message.message_id}@{sender_address.rpartition('@')[2]}>"

    lines = [_header("From", _person(sender, sender_address)), _header("To", _person(to, to_address))]
    if cc:
        lines.append(_header("Cc", ", ".join(_person(*one) for one in cc)))
    if reply_to:
        lines.append(_header("Reply-To", _person(*reply_to)))
    if message.subject:
        lines.append(_header("Subject", _words("Subject", message.subject)))
    lines.append(_header("Date", format_datetime(message.created_at)))
    lines.append(_header("Message-ID", message_id))
    lines += _marks(message)
    head = "".join(lines) + "MIME-Version: 1.0\r\n"
    shown = (sender_address, to_address, *(address for _, address in cc), *(reply_to or ())[1:])
    recipients = (to_address, *(address for _, address in cc + bcc))
    return Mail(
        message_id=message_id,
        sender=sender_address,
        recipients=tuple(dict.fromkeys(recipients)),
        content=head.encode() + _body(message),
        needs_utf8=not all(address.isascii() for address in (*shown, *recipients)),
    )


def safe_filename(filename: str) -> str:
    """The last part of a path, without anything that a receiver's disk or terminal could trip over."""
    name = re.sub(r'[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"<>:|?*]', "_", re.split(r"[/\\]", filename)[-1])
    return name.strip(" .")[:200] or "attachment"


def _marks(message: Outgoing) -> Iterator[str]:
    """What tells machines about the message, and the caller's own headers."""
    yield _header("X-Pillarbox-Id", message.message_id)
    headers = check_email_headers(message.headers)
    if "auto-submitted" not in map(str.lower, headers):
        yield _header("Auto-Submitted", "auto-generated")
    if message.unsubscribe_url:
        yield _header("List-Unsubscribe", f"<{message.unsubscribe_url}>")
        yield _header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
    for name, value in headers.items():
        yield _header(name, _words(name, value))


def _header(name: str, value: str) -> str:
    """A header on as many lines as it needs: broken before blanks alone, so that an id or a URL stays in one piece."""
    if value:
        check_name(f"headers.{name}", value, most=_LONGEST_HEADER)
    lines: list[str] = []
    current = f"{name}:"
    for word in _WORD.findall(f" {value}".rstrip(" ")):
        if len(current) + len(word) > _FOLDED_AT and (lines or current != f"{name}:"):
            lines.append(current)
            current = word
        else:
            current += word
    lines.append(current)
    if any(len(line.encode()) > _LONGEST_LINE for line in lines):
        raise InvalidInput(f"headers.{name}", f"must not have a word of more than {_LONGEST_LINE - len(name)} bytes.")
    return "\r\n".join(lines) + "\r\n"


def _words(name: str, value: str) -> str:
    """A header's text in ASCII (RFC 2047)."""
    if value:
        check_name(name.lower(), value, most=_LONGEST_HEADER)
    if value.isascii() and "=?" not in value:
        return value
    return Header(value, "utf-8", header_name=name, maxlinelen=_FOLDED_AT).encode().replace("\n ", " ")


def _person(shown: str, address: str) -> str:
    """A mailbox with its name, if it has one, in ASCII."""
    name = shown.removesuffix(f"<{address}>").strip() if shown != address else ""
    if not name:
        return address
    if name.isascii() and "=?" not in name:
        return f"{name} <{address}>"
    if name.startswith('"'):
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    encoded = Header(name, "utf-8", header_name="Reply-To", maxlinelen=_FOLDED_AT).encode().replace("\n ", " ")
    return f"{encoded} <{address}>"


def _body(message: Outgoing) -> bytes:
    texts = [
        _text_part(field, kind, text)
        for field, kind, text in (("text", "plain", message.text), ("html", "html", message.html))
        if text is not None
    ]
    content = _joined("alternative", texts or [_text_part("text", "plain", "")], message.message_id)
    files = [_file_part(file) for file in message.attachments]
    return _joined("mixed", [content, *files], message.message_id)


def _text_part(field: str, kind: str, text: str) -> bytes:
    check_text(field, text, most=_LARGEST_TEXT)
    lines = _LINE_END.sub("\r\n", text)
    if not lines.endswith("\r\n"):
        lines += "\r\n"
    encoding, content = _in_seven_bits(lines.encode())
    head = f"Content-Type: text/{kind}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    return head.encode() + content


def _in_seven_bits(data: bytes) -> tuple[str, bytes]:
    """Text that every server can carry: as it is, or in the shorter of the two encodings."""
    foreign = len(data.translate(None, _ASCII))
    if not foreign and not _LONG_LINE.search(data):
        return "7bit", data
    if foreign * 6 <= len(data):
        return "quoted-printable", b2a_qp(data)
    return "base64", _base64(data)


def _file_part(file: Attachment) -> bytes:
    kind = EmailMessage(_PART_POLICY)
    kind["Content-Type"] = file.content_type if _MEDIA_TYPE.fullmatch(file.content_type) else _UNKNOWN
    header = kind["Content-Type"]
    main, sub = header.maintype, header.subtype
    if main in _ENCLOSING:
        main, sub = "application", "octet-stream"
    part = EmailMessage(_PART_POLICY)
    params = {name: value for name, value in header.params.items() if name not in ("name", "boundary")}
    part.set_content(b"", maintype=main, subtype=sub, filename=safe_filename(file.filename), params=params)
    del part["MIME-Version"]
    return part.as_bytes().rstrip(b"\r\n") + b"\r\n\r\n" + _base64(file.content)


def _base64(data: bytes) -> bytes:
    return encodebytes(data).replace(b"\n", b"\r\n")


def _joined(kind: str, parts: Sequence[bytes], message_id: str) -> bytes:
    """One part as it is, several as a multipart, with a boundary that no content can know beforehand."""
    if len(parts) == 1:
        return parts[0]
    boundary = "=_" + sha256(f"{kind} {message_id}".encode()).hexdigest()[:40]
    head = f'Content-Type: multipart/{kind};\r\n boundary="{boundary}"\r\n\r\n--{boundary}\r\n'
    return head.encode() + f"\r\n--{boundary}\r\n".encode().join(parts) + f"\r\n--{boundary}--\r\n".encode()
