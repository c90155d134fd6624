"""Events that the database could not take: one file of lines for each session, which is also that session's lock.

A receiver holds its session's file while it stores an event, so nobody overtakes what waits in it. A file is removed only by
whoever holds its lock. A receiver that cannot have the lock in time puts its event into the folder `FILE.aside`, which the next
holder of the lock appends to the file first. Every event carries a key of its own, so taking it twice does no harm.
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

from pillarbox.hooks.disk import make_folder, sync, sync_folder, write, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

VERSION = 1
MOST_RECORDS = 500
MOST_BYTES = 4 * 1024 * 1024
LONGEST_LINE = 16 * 1024 * 1024
_FILE = ".jsonl"
_ASIDE = ".aside"
_BROKEN = ".broken"
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
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "pillarbox", "spool", _server_name(database_url))


def _server_name(url: str) -> str:
    """A folder's name for one database of one server; whoever may log in to it, and how, is not part of it."""
    place = url.partition("://")[2].partition("?")[0].rpartition("@")[2]
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in place)[:100] or "local"


def line_of(record: "dict[str, Any]") -> bytes:
    """A record as the spool keeps it."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def is_waiting(folder: str, key: str) -> bool:
    """Whether events of this key wait in the spool."""
    return _has_events(_path(folder, key))


def lock(folder: str, key: str, *, seconds: float) -> "Slot | None":
    """The key's file, made if need be; None when others held it all the time."""
    return _lock(_path(folder, key), seconds)


def put_aside(folder: str, key: str, record: "dict[str, Any]") -> None:
    """Keep an event whose file is held by others; it goes behind what the file holds by then."""
    aside = _path(folder, key) + _ASIDE
    name = f"{time.time_ns():020d}-{os.getpid()}"
    draft = os.path.join(aside, "." + name)
    while True:
        make_folder(aside)
        try:
            write_file(draft, os.O_EXCL, line_of(record))
            break
        except FileNotFoundError:
            # Whoever emptied the folder has just removed it.
            continue
    os.rename(draft, os.path.join(aside, name))
    try:
        sync_folder(aside)
        sync_folder(folder)
    except FileNotFoundError:
        # The next holder of the lock has it already.
        return


class Slot:
    """One session's file, open and locked until it is closed."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def has_events(self) -> bool:
        return _has_events(self._path)

    def append(self, record: "dict[str, Any]") -> None:
        """Add an event behind those that wait, on disk when this returns."""
        self.gather()
        self._add([line_of(record)])

    def gather(self) -> None:
        """Append what was put aside, in the order in which it came."""
        aside = self._path + _ASIDE
        names = _put_aside(aside)
        if names:
            self._add(map(_content, names))
            for name in names:
                os.unlink(name)
        try:
            os.rmdir(aside)
        except OSError:
            # It never was there, or somebody is writing into it now.
            return

    def batches(self) -> "Iterator[Batch]":
        """What waits, in pieces; the file goes when all of them are stored."""
        self.gather()
        start = 0
        while True:
            records, broken, end = _read(self._fd, start)
            if end == start:
                self.gather()
                if os.fstat(self._fd).st_size == end:
                    self.remove()
                    return
                continue
            if records:
                batch = Batch(records)
                yield batch
                if not batch.stored:
                    return
            if broken:
                _keep_broken(self._path + _BROKEN, broken)
            start = end

    def remove(self) -> None:
        """Take the file away; those who wait for its lock will notice."""
        if _is_linked(self._fd, self._path):
            os.unlink(self._path)

    def close(self) -> None:
        os.close(self._fd)

    def _add(self, pieces: "Iterator[bytes] | list[bytes]") -> None:
        size = os.fstat(self._fd).st_size
        try:
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                # A line that was torn by a crash stays one line.
                write(self._fd, b"\n")
            for piece in pieces:
                write(self._fd, piece)
        except OSError:
            os.ftruncate(self._fd, size)
            raise
        sync(self._fd)
        sync_folder(os.path.dirname(self._path))


class Batch:
    """Records of one file, in order; the file is held until the next batch is asked for."""

    __slots__ = ("records", "stored")

    def __init__(self, records: "list[dict[str, Any]]") -> None:
        self.records = records
        self.stored = False

    def done(self) -> None:
        """They are in the database: the spool need not keep them."""
        self.stored = True


def take(folder: str) -> "Iterator[Batch]":
    """What waits in a spool, the oldest session first; a file whose batch was not `done` is kept, whole.

    Files that others hold are passed over. One that cannot be read does not stop the rest; its error is raised at the end.
    """
    failed: OSError | None = None
    for path in _by_age(folder):
        try:
            slot = _lock(path, 0)
            if slot is None:
                continue
            try:
                yield from slot.batches()
            finally:
                slot.close()
        except OSError as error:
            failed = failed or error
    if failed:
        raise failed


def _path(folder: str, key: str) -> str:
    return os.path.join(folder, blake2b(key.encode(), digest_size=16).hexdigest() + _FILE)


def _lock(path: str, seconds: float) -> Slot | None:
    deadline = time.monotonic() + seconds
    while True:
        fd = _open(path)
        try:
            held = _lock_before(fd, deadline)
            if held and _is_linked(fd, path):
                return Slot(path, fd)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if not held:
            return None


def _open(path: str) -> int:
    flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        return os.open(path, flags, 0o600)


def _lock_before(fd: int, deadline: float) -> bool:
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)


def _is_linked(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _has_events(path: str) -> bool:
    try:
        size = os.stat(path).st_size
    except OSError:
        size = 0
    return size > 0 or os.path.isdir(path + _ASIDE)


def _put_aside(aside: str) -> list[str]:
    """Paths of whole files, and of drafts whose writer must have died."""
    try:
        names = sorted(os.listdir(aside), key=lambda name: name.removeprefix("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths = [os.path.join(aside, name) for name in names]
    return [path for path, name in zip(paths, names, strict=True) if name[0] != "." or _is_abandoned(path)]


def _is_abandoned(draft: str) -> bool:
    try:
        return os.stat(draft).st_mtime < time.time() - _DRAFT_SECONDS
    except FileNotFoundError:
        return False


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return _ended(file.read())


def _read(fd: int, start: int) -> "tuple[list[dict[str, Any]], list[bytes], int]":
    """Records and broken lines from an offset on, and the offset behind them."""
    records: list[dict[str, Any]] = []
    broken: list[bytes] = []
    end = start
    with open(fd, "rb", closefd=False) as file:
        file.seek(start)
        while len(records) < MOST_RECORDS and end - start < MOST_BYTES and (line := file.readline(LONGEST_LINE)):
            end += len(line)
            if (record := _parsed(line)) is not None:
                records.append(record)
            elif line.strip():
                broken.append(line)
    return records, broken, end


def _parsed(line: bytes) -> "dict[str, Any] | None":
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _is_record(record) else None


def _is_record(record: "dict[str, Any]") -> bool:
    texts = [record.get("key"), record.get("event_type"), record.get("session_id") or record.get("native_session_id")]
    return (
        record.get("v") == VERSION
        and all(isinstance(text, str) and text for text in texts)
        and isinstance(record.get("payload"), dict)
        and isinstance(record.get("at"), int | float)
    )


def _keep_broken(path: str, lines: list[bytes]) -> None:
    write_file(path, os.O_APPEND, b"".join(map(_ended, lines)))
    sync_folder(os.path.dirname(path))


def _by_age(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    stems = {name.removesuffix(_ASIDE) for name in names}
    paths = [os.path.join(folder, stem) for stem in stems if stem.endswith(_FILE)]
    return sorted(paths, key=lambda path: (_age(path), path))


def _age(path: str) -> float:
    """When the first event came; that of a file without one does not matter."""
    try:
        with open(path, "rb") as file:
            record = _parsed(file.readline(LONGEST_LINE))
        return float(record["at"]) if record else os.stat(path).st_mtime
    except OSError:
        return 0.0
