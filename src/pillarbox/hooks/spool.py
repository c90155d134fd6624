"""Events that the database could not take: one file of lines for each session, which is also that session's lock.

A receiver holds its session's file while it stores an event, so nobody overtakes what waits in it. A file is removed only by
whoever holds its lock. A receiver that cannot have the lock in time puts its event into the folder `FILE.aside`, which the next
holder of the lock appends to the file first. Every event carries a key of its own, so taking it twice does no harm.

A session may be called by two names, ours and its agent's. An event that has both leaves an alias where the other one would
look, so that all of them wait in one file.
"""

import fcntl
import json
import os
import time

try:
    # `hashlib` takes longer to import than an event takes to be stored.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from pillarbox.hooks.disk import (
    is_own_folder,
    make_folder,
    open_file,
    read_file,
    size_of,
    sync,
    sync_folder,
    write,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

VERSION = 1
LONGEST_LINE = 16 * 1024 * 1024
SHARED = "/var/tmp/pillarbox"  # noqa: S108 - what is found there is checked
FILE = ".jsonl"
ASIDE = ".aside"
ALIAS = ".alias"
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
_DRAFT_SECONDS = 60.0


def sqlite_path(database_url: str) -> str | None:
    """The file behind an SQLite URL, or None when it is another database's."""
    if not database_url.startswith("sqlite://"):
        return None
    return database_url.removeprefix("sqlite://").removeprefix("/")


def default_spool_dir(database_url: str) -> str:
    """Beside an SQLite file; for a server, where this user's programs keep their state."""
    if (path := sqlite_path(database_url)) and path != ":memory:":
        return os.path.realpath(path) + ".spool"
    state = os.environ.get("XDG_STATE_HOME") or ""
    if not os.path.isabs(state):
        home = os.path.expanduser("~")
        state = os.path.join(home, ".local", "state") if os.path.isabs(home) and home != "/" else _homeless_state()
    return os.path.join(state, "pillarbox", "spool", _server_name(database_url))


def _homeless_state() -> str:
    """For a user without a home; anybody may make folders there, so one that is not ours alone is as none at all."""
    state = f"{SHARED}-{os.geteuid()}"
    return state if not os.path.lexists(state) or is_own_folder(state) else os.path.join(os.devnull, "state")


def _server_name(url: str) -> str:
    """A folder's name for one database of one server; whoever may log in to it, and how, is not part of it."""
    place = url.partition("://")[2].partition("?")[0].rpartition("@")[2]
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in place)[:100] or "local"


def line_of(record: "dict[str, Any]") -> bytes:
    """A record as the spool keeps it."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def keys_of(record: "dict[str, Any]") -> list[str]:
    """The names of an event's session, ours first."""
    named = {"session": record["session_id"], "native": record["native_session_id"]}
    return [f"{kind}:{name}" for kind, name in named.items() if name]


def is_waiting(folder: str, key: str) -> bool:
    """Whether events of this key wait in the spool."""
    return has_events(path_of(folder, key))


def key_of(folder: str, keys: list[str]) -> str:
    """The key under which events of a session wait that goes by all these, or the first of them."""
    for key in keys:
        for each in (key, _alias_of(folder, key)):
            if each and is_waiting(folder, each):
                return each
    return keys[0]


def lock(folder: str, key: str, *, seconds: float) -> "Slot | None":
    """The key's file, made if need be; None when others held it all the time, or hold it while events wait in it."""
    return lock_path(path_of(folder, key), seconds, key)


def put_aside(folder: str, key: str, record: "dict[str, Any]") -> None:
    """Keep an event whose file is held by others; it goes behind what the file holds by then."""
    aside = path_of(folder, key) + ASIDE
    while True:
        make_folder(aside)
        try:
            name = f"{_highest(aside) + 1:020d}-{os.getpid()}"
            draft = os.path.join(aside, "." + name)
            write_file(draft, os.O_EXCL, line_of(record))
            os.rename(draft, os.path.join(aside, name))
            break
        except FileNotFoundError:
            # Whoever emptied the folder has just removed it.
            continue
    _leave_aliases(folder, key, record)
    try:
        sync_folder(aside)
        sync_folder(folder)
    except FileNotFoundError:
        # The next holder of the lock has it already.
        return


class Slot:
    """One session's file, open and locked until it is closed."""

    __slots__ = ("_key", "fd", "path")

    def __init__(self, path: str, fd: int, key: str) -> None:
        self.path = path
        self.fd = fd
        self._key = key

    def has_events(self) -> bool:
        return has_events(self.path)

    def append(self, record: "dict[str, Any]") -> None:
        """Add an event behind those that wait, on disk when this returns."""
        _leave_aliases(os.path.dirname(self.path), self._key, record)
        self.gather()
        self._add([line_of(record)])

    def gather(self) -> None:
        """Append what was put aside, in the order in which it came."""
        aside = self.path + ASIDE
        names = _put_aside(aside)
        if names:
            self._add(ended(read_file(name, LONGEST_LINE)) for name in names)
            for name in names:
                os.unlink(name)
        try:
            os.rmdir(aside)
        except OSError:
            # It never was there, or somebody is writing into it now.
            return

    def remove(self) -> None:
        """Take the file away; those who wait for its lock will notice."""
        if _is_linked(self.fd, self.path):
            os.unlink(self.path)

    def close(self) -> None:
        os.close(self.fd)

    def _add(self, pieces: "Iterable[bytes]") -> None:
        size = os.fstat(self.fd).st_size
        try:
            if size and os.pread(self.fd, 1, size - 1) != b"\n":
                # A line that was torn by a crash stays one line.
                write(self.fd, b"\n")
            for piece in pieces:
                write(self.fd, piece)
        except OSError:
            os.ftruncate(self.fd, size)
            raise
        sync(self.fd)
        sync_folder(os.path.dirname(self.path))


def lock_path(path: str, seconds: float, key: str = "") -> Slot | None:
    """A file of the spool, locked; only a receiver knows its key."""
    deadline = time.monotonic() + seconds
    while True:
        fd = _open(path)
        try:
            held = _lock_before(fd, deadline, path)
            if held and _is_linked(fd, path):
                return Slot(path, fd, key)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if not held:
            return None


def has_events(path: str) -> bool:
    """Whether a file holds events, or some were put aside for it."""
    return size_of(path) > 0 or os.path.isdir(path + ASIDE)


def ended(text: bytes) -> bytes:
    """A line with its end."""
    return text if text.endswith(b"\n") else text + b"\n"


def path_of(folder: str, key: str) -> str:
    """The file of a key."""
    return os.path.join(folder, digest(key) + FILE)


def digest(text: str) -> str:
    """What stands for a text of any length, in 32 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _alias_of(folder: str, key: str) -> str | None:
    """The other name under which this session's events wait."""
    try:
        return os.readlink(path_of(folder, key) + ALIAS)
    except (OSError, ValueError):
        return None


def _leave_aliases(folder: str, key: str, record: "dict[str, Any]") -> None:
    for other in keys_of(record):
        place = path_of(folder, other) + ALIAS
        if other != key and _alias_of(folder, other) != key:
            try:
                os.symlink(key, draft := f"{place}.{os.getpid()}")
                os.rename(draft, place)
            except (OSError, ValueError):
                # Without it the order among the two names is lost, and no event.
                continue


def _open(path: str) -> int:
    how = os.O_CREAT | os.O_RDWR | os.O_APPEND
    try:
        return open_file(path, how)
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        return open_file(path, how)


def _lock_before(fd: int, deadline: float, path: str) -> bool:
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left = deadline - time.monotonic()
            # Where events wait already the database will not be tried, so there is nothing to wait for either.
            if left <= 0 or has_events(path):
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)


def _is_linked(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _highest(aside: str) -> int:
    """The last number given there: a count, for clocks are set back."""
    numbers = (name.removeprefix(".").partition("-")[0] for name in os.listdir(aside))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _put_aside(aside: str) -> list[str]:
    """Paths of whole files, and of drafts whose writer must have died."""
    try:
        names = sorted(os.listdir(aside), key=lambda name: name.removeprefix("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths = [(name, os.path.join(aside, name)) for name in names]
    return [path for name, path in paths if size_of(path) >= 0 and (name[0] != "." or _is_abandoned(path))]


def _is_abandoned(draft: str) -> bool:
    try:
        return os.stat(draft).st_mtime < time.time() - _DRAFT_SECONDS
    except FileNotFoundError:
        return False
