"""Whom a message goes to, in canonical form: however people write a contact, it is the same one for opt-outs."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from pillarbox.errors import InvalidInput
from pillarbox.outbound.destinations import origin_of
from pillarbox.text import check_name

_LONGEST_MAILBOX = 254
_LONGEST_NAME = 256
_LONGEST_TOKEN = 4096
_LONGEST_URL = 2000
# The channels whose contacts do not tell by their form what they are.
_NAMED_FREELY = ("push", "telegram", "discord", "slack", "inapp")

_ATOM = r"[a-z0-9_!#$%&'*+\-/=?^`{|}~]+"
_LABEL = r"(?!..--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# What most mailboxes look like. It spares the library's tenth of a millisecond, and lets private domains (.local, .test) pass.
_PLAIN_MAILBOX = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@(?:{_LABEL}\.)+(?=[^.]*[a-z]$){_LABEL}")
_NAMED_MAILBOX = re.compile(r"([^<>]*)<([^<>]*)>")
_QUOTED_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLAIN_NAME = re.compile(r"[^\"\\()<>\[\]:;@,]*")
_ATOMS = re.compile(r"[\w!#$%&'*+\-/=?^`{|}~ ]*")
_DIALLED = re.compile(r"[+(]*[0-9][0-9\s().\u2010-\u2015-]*")
_DIGITS = re.compile(r"[0-9]+")
_LIKE_A_MAILBOX = re.compile(r"[^@]+@[^.@]*[.@]")
_FILLING = re.compile(r"[\s().\u2010-\u2015-]")
_E164 = re.compile(r"\+[1-9][0-9]{1,14}")
_ORIGIN = re.compile(r"[^:/?#]*://[^/?#]*")
# A person of WhatsApp whose number is not shown, and a group; any other contact there is a number.
_WHATSAPP_USER = re.compile(r"[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]{1,128}")
_WHATSAPP_GROUP = re.compile(r"group:[\x21-\x7e]{1,200}")
_APNS_TOKEN = re.compile(r"[0-9A-Fa-f]{64,200}")


def mailbox(field: str, text: str) -> tuple[str, str]:
    """One mailbox, with or without a name before it: as it is shown in a message, and in canonical form."""
    stripped = _one_line(field, text, most=_LONGEST_NAME + _LONGEST_MAILBOX + 4)
    if not stripped.endswith(">"):
        address = _canonical_mailbox(field, stripped)
        return address, address
    named = _NAMED_MAILBOX.fullmatch(stripped)
    if named is None:
        raise InvalidInput(field, "must be one mailbox, such as Name <user@example.com>.")
    name = _display_name(field, named[1].strip())
    address = _canonical_mailbox(field, named[2].strip())
    return (f"{name} <{address}>" if name else address), address


def bare_mailbox(field: str, text: str) -> str:
    """One mailbox without a name, in canonical form."""
    return _canonical_mailbox(field, _one_line(field, text, most=_LONGEST_NAME + _LONGEST_MAILBOX))


def phone(field: str, text: str) -> str:
    """An international number as E.164; numbers that nobody has yet are taken too, as tests and films need them."""
    import phonenumbers

    number = _FILLING.sub("", _one_line(field, text, most=64))
    if not _E164.fullmatch(number):
        raise InvalidInput(field, "must be an international number that begins with +, such as +15005550006.")
    try:
        parsed = phonenumbers.parse(number, None)
    except phonenumbers.NumberParseException:
        raise InvalidInput(field, "is not a number of any country.") from None
    if not phonenumbers.is_possible_number(parsed):
        raise InvalidInput(field, "has too few or too many digits for its country.")
    stored = phonenumbers.format_number(parsed, phonenumbers.PhoneNumberFormat.E164)
    # A zero for calls within the country is dropped; what still begins with one is nobody's number.
    return stored if stored == number else _settled(field, stored)


def _settled(field: str, number: str) -> str:
    if phone(field, number) != number:
        raise InvalidInput(field, "is not a number of its country.")
    return number


def whatsapp(field: str, text: str) -> str:
    """A number, the id of a person whose number is not shown (`US.1349`), or a group (`group:ID`)."""
    given = _one_line(field, text, most=_LONGEST_NAME)
    return given if is_whatsapp_user(given) or _WHATSAPP_GROUP.fullmatch(given) else phone(field, given)


def is_whatsapp_user(text: str) -> bool:
    """Whether a contact is a person's id at one business, which WhatsApp tells instead of a number."""
    return _WHATSAPP_USER.fullmatch(text) is not None


def device_token(field: str, text: str) -> str:
    """A token that names a device to its push service."""
    token = _one_line(field, text, most=_LONGEST_TOKEN)
    if re.search(r"\s", token):
        raise InvalidInput(field, "must be one token, without blanks.")
    return token.lower() if _APNS_TOKEN.fullmatch(token) else token


def url(field: str, text: str) -> str:
    """The canonical form of a URL; the one to request is the one that was given."""
    given = _one_line(field, text, most=_LONGEST_URL)
    beginning = _ORIGIN.match(given)
    end = beginning.end() if beginning else 0
    try:
        origin = _origin(given[:end])
    except ValueError as fault:
        raise InvalidInput(field, str(fault)) from None
    path = given[end:].partition("#")[0]
    return origin + (path if path.startswith("/") else f"/{path}")


def opaque(field: str, text: str) -> str:
    """A name that only its provider understands."""
    return _one_line(field, text, most=255)


def canonical(channel: str, contact: str, *, field: str = "contact") -> str:
    """A contact as messages of that channel store it; for `all` channels its form tells what it is."""
    match channel if channel != "all" else _likely_channel(field, contact):
        case "email":
            return mailbox(field, contact)[1]
        case "sms" | "voice":
            return phone(field, contact)
        case "whatsapp":
            return whatsapp(field, contact)
        case "webhook":
            return url(field, contact)
        case "push":
            return device_token(field, contact)
        case _:
            return opaque(field, contact)


def form_for_all(channel: str, contact: str) -> str:
    """A contact of that channel as an opt-out of all channels knows it."""
    if channel not in _NAMED_FREELY:
        return contact
    try:
        return canonical("all", contact)
    except InvalidInput:
        return contact


def every_form(contact: str) -> list[str]:
    """All that a contact may be stored as, whatever its channel."""
    found: dict[str, None] = {}
    fault: InvalidInput | None = None
    for channel in ("all", *_NAMED_FREELY):
        try:
            found[canonical(channel, contact)] = None
        except InvalidInput as refused:
            fault = fault or refused
    if fault and not found:
        raise fault
    return list(found)


# The same few hosts take most webhooks.
_origin = lru_cache(maxsize=1024)(origin_of)


def _likely_channel(field: str, contact: str) -> str:
    """What is plainly meant as a URL, a mailbox or a number must be one; anything else is kept as it is."""
    stripped = contact.strip()
    if re.match(r"https?://", stripped, re.IGNORECASE):
        return "webhook"
    if _LIKE_A_MAILBOX.match(stripped) or ("@" in stripped and _is_mailbox(field, contact)):
        return "email"
    if _DIALLED.fullmatch(stripped) and not _DIGITS.fullmatch(stripped):
        return "sms"
    return "push" if _APNS_TOKEN.fullmatch(stripped) or len(stripped) > 255 else "inapp"


def _is_mailbox(field: str, contact: str) -> bool:
    try:
        mailbox(field, contact)
    except InvalidInput:
        return False
    return True


def _one_line(field: str, text: str, *, most: int) -> str:
    if len(text) > most + 64:
        raise InvalidInput(field, f"must have at most {most} characters.")
    return check_name(field, text.strip(" \t"), most=most)


def _display_name(field: str, text: str) -> str:
    """A name as it may stand before a mailbox, quoted where it must be."""
    if quoted := _QUOTED_NAME.fullmatch(text):
        name = re.sub(r"\\(.)", r"\1", quoted[1])
    elif _PLAIN_NAME.fullmatch(text):
        name = text
    else:
        raise InvalidInput(field, 'has a name that must be quoted, such as "Doe, John" <john@example.com>.')
    if len(name) > _LONGEST_NAME:
        raise InvalidInput(field, f"must have a name of at most {_LONGEST_NAME} characters.")
    if _ATOMS.fullmatch(name):
        return " ".join(name.split())
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'


def _canonical_mailbox(field: str, address: str) -> str:
    lower = address.lower()
    if len(address) <= _LONGEST_MAILBOX and address.isascii() and _PLAIN_MAILBOX.fullmatch(lower):
        return lower
    return _canonical_rare_mailbox(field, address)


def _canonical_rare_mailbox(field: str, address: str) -> str:
    from email_validator import EmailNotValidError, validate_email

    if not address or re.search(r"[\s<>,;:\"()\\\[\]]", address) or address.count("@") != 1:
        raise InvalidInput(field, "must be exactly one mailbox, such as user@example.com.")
    if len(address.encode()) > _LONGEST_MAILBOX:
        raise InvalidInput(field, f"must have at most {_LONGEST_MAILBOX} bytes.")
    try:
        found = validate_email(address, check_deliverability=False, test_environment=True)
        local = unicodedata.normalize("NFC", found.local_part.lower())
        again = validate_email(f"{local}@{found.ascii_domain}", check_deliverability=False, test_environment=True)
    except EmailNotValidError:
        # Without its text, which quotes the address.
        raise InvalidInput(field, "is not a mailbox that mail can be sent to.") from None
    return f"{again.local_part}@{again.ascii_domain}"
