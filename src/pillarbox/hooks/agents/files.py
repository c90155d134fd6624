"""Reading and replacing a settings file: whole or not at all, through links, with a copy of what it was."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pillarbox.errors import InvalidInput, Refused

_PRIVATE = 0o600


def read(path: Path) -> str | None:
    """The text of a file, or None when there is none."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise InvalidInput("settings", f"{path} is not UTF-8 text. Nothing was changed.") from None
    except OSError as error:
        raise InvalidInput("settings", f"{path} cannot be read: {error.strerror}.") from None


def replace(path: Path, before: str | None, after: str | None) -> Path | None:
    """Put a text in the place of another, or remove the file; answers where the former text was copied to."""
    target = path.resolve()
    if read(target) != before:
        raise Refused(f"{path} was changed meanwhile; run this again. Nothing was changed.")
    try:
        if before is None:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(target, after or "", None)
            return None
        state = target.stat()
        if not state.st_mode & 0o222:
            raise Refused(f"{path} is read-only; make it writable first. Nothing was changed.")
        if after is None:
            target.unlink()
            return None
        copy = _back_up(path, before, state)
        _write(target, after, state)
        return copy
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}. Nothing was changed.") from None


def _back_up(path: Path, text: str, state: os.stat_result) -> Path:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    for turn in range(1, 1000):
        copy = path.with_name(f"{path.name}.pillarbox-backup-{stamp}{f'-{turn}' if turn > 1 else ''}")
        with (
            suppress(FileExistsError),
            open(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file,
        ):
            _fill(file.fileno(), text, state)
            return copy
    raise Refused(f"{path} has a thousand copies of this second beside it.")


def _write(target: Path, text: str, state: os.stat_result | None) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        try:
            _fill(handle, text, state)
        finally:
            os.close(handle)
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fill(handle: int, text: str, state: os.stat_result | None) -> None:
    rest = memoryview(text.encode())
    while rest:
        rest = rest[os.write(handle, rest) :]
    if state is not None:
        with suppress(PermissionError):
            os.fchown(handle, state.st_uid, state.st_gid)
        os.fchmod(handle, stat.S_IMODE(state.st_mode))
    os.fsync(handle)
