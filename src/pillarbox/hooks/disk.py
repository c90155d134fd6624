"""Files that are on the disk when a call returns; imports next to nothing, for a receiver starts in milliseconds."""

import fcntl
import os


def make_folder(folder: str) -> None:
    """A folder for its owner alone, and those above it, unless they are there."""
    if not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        make_folder(parent)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            return
        sync_folder(parent)


def write_file(path: str, how: int, text: bytes) -> None:
    """Make a file or add to it, as the flags say."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | how, 0o600)
    try:
        write(fd, text)
        sync(fd)
    finally:
        os.close(fd)


def write(fd: int, text: bytes) -> None:
    """All of a text, not yet on the disk."""
    while text:
        text = text[os.write(fd, text) :]


def sync(fd: int) -> None:
    """To the disk itself, for which macOS has a call of its own."""
    if (full := getattr(fcntl, "F_FULLFSYNC", None)) is not None:
        fcntl.fcntl(fd, full)
    else:
        os.fsync(fd)


def sync_folder(folder: str) -> None:
    """The names in a folder."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
