"""Text that is given as an option, in a file or on stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from pillarbox.errors import InvalidInput


def text_or_stdin(field: str, text: str | None) -> str | None:
    """The text itself, or what stdin says where it is -."""
    return stdin_text(field) if text == "-" else text


def stdin_text(field: str) -> str:
    return _decoded(field, sys.stdin.buffer.read())


def file_text(field: str, file: Path) -> str:
    return _decoded(field, file_bytes(field, file))


def file_bytes(field: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(field, f"{file} cannot be read: {error.strerror}.") from error


def _decoded(field: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(field, "must be UTF-8.") from None
