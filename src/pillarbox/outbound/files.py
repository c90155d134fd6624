"""Files below the operator's roots, opened so that nothing on the way can lead elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import PurePosixPath

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# Without waiting, so that a pipe put in a file's place holds up nobody.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OF_THE_SYSTEM = (PurePosixPath("/proc"), PurePosixPath("/sys"), PurePosixPath("/dev"))
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG})


class Forbidden(Exception):
    """The file cannot be had, now or later; the text completes "The attachment ..."."""


class TooLarge(Exception):
    """The file has more bytes than are asked for."""


def read_below(path: str, roots: Sequence[str], *, most: int) -> bytes:
    """Read a regular file that lies strictly below one of the roots, following no link; an OSError may pass."""
    root, steps = _way(path, roots)
    # The root itself is the operator's word, links and all.
    folder = os.open(root, _STEP & ~os.O_NOFOLLOW)
    try:
        for step in steps[:-1]:
            inner = _open(step, _STEP, folder)
            os.close(folder)
            folder = inner
        # Looked at before it is opened as well, because opening a device can do something.
        _check_kind(_stat(steps[-1], folder))
        file = _open(steps[-1], _FILE, folder)
    finally:
        os.close(folder)
    try:
        return _read(file, most)
    finally:
        os.close(file)


def _way(path: str, roots: Sequence[str]) -> tuple[PurePosixPath, tuple[str, ...]]:
    given = PurePosixPath(path)
    above = [root for root in map(PurePosixPath, roots) if root in given.parents]
    if not above or not given.is_absolute() or ".." in given.parts or "\0" in path:
        raise Forbidden("is not below one of outbound.attachment_roots.")
    if any(given.is_relative_to(system) for system in _OF_THE_SYSTEM):
        raise Forbidden("is not a regular file.")
    root = max(above, key=lambda candidate: len(candidate.parts))
    return root, given.relative_to(root).parts


def _open(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        raise _sense(error) from None


def _stat(name: str, folder: int) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise _sense(error) from None


def _sense(error: OSError) -> Exception:
    if error.errno in _NOT_THERE:
        return Forbidden("does not exist, or a link leads to it.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Forbidden("may not be read by this process.")
    return error


def _check_kind(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise Forbidden("does not exist, or a link leads to it.")
    if not stat.S_ISREG(found.st_mode):
        raise Forbidden("is not a regular file.")


def _read(file: int, most: int) -> bytes:
    found = os.fstat(file)
    _check_kind(found)
    if found.st_size > most:
        raise TooLarge
    content = bytearray()
    while len(content) <= found.st_size and (part := os.read(file, found.st_size + 1 - len(content))):
        content += part
    if len(content) != found.st_size:
        raise OSError(errno.ESTALE, "changed while it was read")
    return bytes(content)
