"""The key that seals: a setting, or a file beside an SQLite database that is made once."""

from __future__ import annotations

import base64
import binascii
import logging
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from pillarbox.errors import SettingsError
from pillarbox.secrets.sealing import KEY_BYTES

_MEMORY = ":memory:"
_HOW_TO_MAKE_ONE = "make one with `openssl rand -base64 32`"
_log = logging.getLogger(__name__)


NEEDED = f"On PostgreSQL every node needs the same secrets.key; {_HOW_TO_MAKE_ONE} and set it on each."


def load_key(setting: str | None, *, sqlite_file: str | None) -> bytes | None:
    """The setting's key, or else that of the SQLite file, made at the first call; None for a server without the setting."""
    if setting is not None:
        key = _decoded(setting)
        if key is None:
            raise SettingsError(f"secrets.key must be {KEY_BYTES} bytes in base64; {_HOW_TO_MAKE_ONE}.")
        return key
    if sqlite_file is None:
        return None
    if (file := key_file_of(sqlite_file)) is None:
        return secrets.token_bytes(KEY_BYTES)
    return _key_beside(file)


def key_file_of(sqlite_file: str) -> Path | None:
    """Where the key of an SQLite file lies; None for one in memory."""
    return None if sqlite_file == _MEMORY else Path(f"{sqlite_file}.key")


def missing(file: Path) -> SettingsError:
    """What to say where a key is gone that something was sealed with."""
    return SettingsError(
        f"The key file {file} is missing; put back a copy of it: this database was begun with that key, and no other will do."
    )


def _key_beside(path: Path) -> bytes:
    try:
        if not path.exists():
            _make(path)
        text, mode = _read(path)
    except OSError as error:
        raise SettingsError(
            f"The key file {path} cannot be read or made ({error.strerror}); mend that, or set secrets.key."
        ) from error
    key = _decoded(text)
    if key is None:
        raise SettingsError(
            f"The key file {path} is damaged; put back a copy of it: only that key opens what it sealed."
        )
    if mode & 0o077:
        _log.warning("The key file %s can be read by others; take that from them with `chmod 600`.", path)
    return key


def _make(path: Path) -> None:
    """Written in full under another name first: whoever finds the file finds a whole key, and the first to link it wins."""
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        os.unlink(unfinished)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        return file.read(1024).decode("ascii", "replace"), stat.S_IMODE(os.fstat(file.fileno()).st_mode)


def _decoded(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None
