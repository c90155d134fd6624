"""What is kept unreadable: sealed values, hashes of contacts, and the tokens of links."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from pillarbox.errors import SecretUnavailable, Unavailable

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_VERSION = "v1"


@dataclass(frozen=True, slots=True, repr=False)
class _Key:
    """One key of the operator and those derived from it, each for one purpose."""

    id: str
    sealing: bytes
    contacts: hmac.HMAC
    tokens: bytes


class Sealer:
    """Seals with the current key and opens with any that it knows, so that keys can be changed.

    A sealed value is bound to where it belongs: moved to another tenant or message, it does not open.
    """

    def __init__(self, current: bytes, older: Sequence[bytes] = ()) -> None:
        self._current = _derived(current)
        self._known = {key.id: key for key in (*map(_derived, older), self._current)}

    @property
    def key_id(self) -> str:
        """A short name for the current key that tells nothing of it."""
        return self._current.id

    def seal(self, plaintext: bytes, *, bound_to: tuple[str, ...]) -> str:
        """Text that only a holder of the key can open, and only as what it is bound to."""
        return f"{_VERSION}:{self._current.id}:{_base64(_encrypt(self._current.sealing, plaintext, bound_to))}"

    def open(self, text: str, *, bound_to: tuple[str, ...]) -> bytes:
        """What was sealed, or `SecretUnavailable`."""
        version, _, rest = text.partition(":")
        key_id, _, sealed = rest.partition(":")
        if version != _VERSION:
            raise SecretUnavailable("A sealed value has a form that this version does not know.")
        if (key := self._known.get(key_id)) is None:
            raise SecretUnavailable(
                "A value was sealed with another key; set secrets.key to the one it was sealed with."
            )
        plaintext = _decrypt(key.sealing, sealed, bound_to)
        if plaintext is None:
            raise SecretUnavailable("A sealed value was changed, or belongs to something else.")
        return plaintext

    def contact_hash(self, tenant: str, contact: str) -> str:
        """32 hex characters that stand for a contact of a tenant, and lead back to it only for a holder of the key."""
        return _contact_hash(self._current, tenant, contact)

    def token(self, payload: tuple[str, ...]) -> str:
        """A token for a link, from which nobody else can read or make anything."""
        return _base64(_encrypt(self._current.tokens, json.dumps(payload).encode(), ()))

    def read_token(self, text: str) -> tuple[str, ...] | None:
        """What a token of ours carries; None for any other text."""
        for key in self._known.values():
            plaintext = _decrypt(key.tokens, text, ())
            if plaintext is not None:
                return tuple(json.loads(plaintext))
        return None


class Keyless:
    """Stands where no key was set: everything else works, and whatever needs the key says so."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence

    def __getattr__(self, name: str) -> NoReturn:
        raise Unavailable(self._sentence)


def _derived(key: bytes) -> _Key:
    if len(key) != KEY_BYTES:
        raise ValueError(f"A key has {KEY_BYTES} bytes.")
    return _Key(
        _for_purpose(key, "key id")[:4].hex(),
        _for_purpose(key, "sealed values"),
        hmac.new(_for_purpose(key, "contact hashes"), digestmod=hashlib.sha256),
        _for_purpose(key, "link tokens"),
    )


def _for_purpose(key: bytes, purpose: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=f"pillarbox {purpose}".encode()).derive(key)


def _contact_hash(key: _Key, tenant: str, contact: str) -> str:
    # A copy of one that knows the key: setting one up costs three times what hashing a contact does.
    contact_hash = key.contacts.copy()
    contact_hash.update(_together((tenant, contact)))
    return contact_hash.hexdigest()[:32]


def _encrypt(key: bytes, plaintext: bytes, bound_to: tuple[str, ...]) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _cipher(key, bound_to).encrypt(nonce, plaintext, _together(bound_to))


def _decrypt(key: bytes, text: str, bound_to: tuple[str, ...]) -> bytes | None:
    sealed = _from_base64(text)
    if sealed is None or len(sealed) < _NONCE_BYTES + _TAG_BYTES:
        return None
    try:
        return _cipher(key, bound_to).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _together(bound_to))
    except InvalidTag:
        return None


def _cipher(key: bytes, bound_to: tuple[str, ...]) -> AESGCM:
    # A key for each binding: random nonces of 96 bits are good for 2**32 values under one key, which a busy sender outlives.
    return AESGCM(hmac.digest(key, _together(bound_to), hashlib.sha256))


def _together(parts: tuple[str, ...]) -> bytes:
    """Several texts as one, such that no other texts give the same."""
    return json.dumps(parts).encode()


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _from_base64(text: str) -> bytes | None:
    """The content, from its only spelling: decoders overlook bits at the end, and a changed token must not pass."""
    try:
        content = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return content if _base64(content) == text else None
