"""Credentials by reference: a word that says where a secret is, read when the secret is needed."""

from __future__ import annotations

import os
import re
import stat

from pillarbox.errors import InvalidInput, SecretUnavailable

_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]{0,254})")
_FILE = re.compile("file:(/[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,1023})")
_VAULT = re.compile(r"vault:[^\s#]+#[^\s#]+")
_LARGEST_FILE = 64 * 1024


def check_reference(field: str, text: str) -> str:
    """Refuse whatever is not a reference, without quoting it: it may be the secret itself."""
    if isinstance(text, str):
        if _ENV.fullmatch(text) or _FILE.fullmatch(text):
            return text
        if _VAULT.fullmatch(text):
            raise InvalidInput(field, "Vault is not available yet; use env:NAME or file:/absolute/path.")
    raise InvalidInput(field, "must say where the secret is, env:NAME or file:/absolute/path, and not be the secret.")


def read_reference(reference: str) -> str:
    """The secret a reference leads to; reading a file blocks."""
    if variable := _ENV.fullmatch(reference):
        secret = os.environ.get(variable[1])
        if secret is None:
            raise SecretUnavailable(f"{reference} leads nowhere: this process has no such variable.")
    elif file := _FILE.fullmatch(reference):
        secret = _text(reference, _read_file(reference, file[1]))
    else:
        raise SecretUnavailable("A credential is no reference of the forms env:NAME and file:/absolute/path.")
    if not secret.strip():
        raise SecretUnavailable(f"{reference} is empty.")
    return secret


def _read_file(reference: str, path: str) -> bytes:
    try:
        # Without waiting: a pipe that nobody writes to would hold the sender for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SecretUnavailable(f"{reference} is not a regular file.")
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise SecretUnavailable(f"{reference} cannot be read: {error.strerror}.") from error
    if len(content) > _LARGEST_FILE:
        raise SecretUnavailable(f"{reference} is larger than {_LARGEST_FILE // 1024} KiB.")
    return content


def _text(reference: str, content: bytes) -> str:
    text = content.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
    if re.search("[\x00\ud800-\udfff]", text):
        raise SecretUnavailable(f"{reference} is not text in UTF-8.")
    return text
