"""Files that are on the disk when a call returns; imports next to nothing, for a receiver starts in milliseconds."""

import errno
import fcntl
import os
import stat


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


def is_own_folder(folder: str) -> bool:
    """Whether a folder is ours and nobody else may change what is in it."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def open_file(path: str, how: int) -> int:
    """A regular file; whatever else has the name is neither followed nor waited for."""
    fd = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "not a regular file", path)


def read_file(path: str, most: int) -> bytes:
    """The beginning of a regular file, all of it unless it is larger than asked for."""
    fd = open_file(path, os.O_RDONLY)
    with open(fd, "rb") as file:
        return file.read(most)


def size_of(path: str) -> int:
    """How large a regular file is; less than nothing if there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def write_file(path: str, how: int, text: bytes) -> None:
    """Make a file or add to it, as the flags say."""
    fd = open_file(path, os.O_CREAT | os.O_WRONLY | how)
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
