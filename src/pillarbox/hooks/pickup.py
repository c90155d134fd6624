"""Taking events out of the spool, without a database: blocking code, to be called in a thread."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from pillarbox.hooks.disk import open_file, read_file, size_of, sync_folder, write_file
from pillarbox.hooks.spool import (
    ALIAS,
    ASIDE,
    FILE,
    LONGEST_LINE,
    VERSION,
    Slot,
    ended,
    has_events,
    line_of,
    lock_path,
    path_of,
)

MOST_RECORDS = 500
MOST_BYTES = 4 * 1024 * 1024
_BROKEN = ".broken"
_LARGEST_BROKEN = 64 * 1024 * 1024
_MOST_LISTED = 10_000
_MOST_OPENED = 100
_HEAD = 256

Record = dict[str, Any]


class Batch:
    """Records of one file, in order; the file is held until the next batch is asked for."""

    __slots__ = ("records", "refused", "stored")

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.refused: list[Record] = []
        self.stored = False

    def done(self, refused: Sequence[Record] = ()) -> None:
        """They are in the database, so the spool need not keep them; those refused are kept among the broken ones."""
        self.refused += refused
        self.stored = True


def take(folder: str) -> Iterator[Batch]:
    """What waits in a spool, the oldest session first; a file whose batch was not `done` is kept, whole.

    Files that others hold are passed over. One that cannot be read does not stop the rest; its error is raised at the end.
    """
    failed: OSError | None = None
    for path in _by_age(folder):
        try:
            slot = lock_path(path, 0)
            if slot is None:
                continue
            try:
                yield from _batches(slot)
            finally:
                slot.close()
        except OSError as error:
            failed = failed or error
    _forget_aliases(folder)
    if failed:
        raise failed


def waiting(folder: str) -> tuple[int, float | None, int]:
    """How many sessions have events in a spool, for how many seconds the oldest waits, and how many files are broken.

    It looks at a bounded number of files only: of a spool that holds more it tells less than there is.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_LISTED)]
    except OSError:
        return 0, None, 0
    paths = [path for path in _files(folder, names) if has_events(path)]
    since = min((_since(path) for path in paths[:_MOST_OPENED]), default=None)
    age = None if since is None else max(0.0, time.time() - since)
    return len(paths), age, sum(name.endswith(_BROKEN) for name in names)


def _batches(slot: Slot) -> Iterator[Batch]:
    """What waits, in pieces; the file goes when all of them are stored."""
    slot.gather()
    start = 0
    while True:
        records, broken, end = _read(slot.fd, start)
        if end == start:
            slot.gather()
            if os.fstat(slot.fd).st_size == end:
                slot.remove()
                return
            continue
        if records:
            batch = Batch(records)
            yield batch
            if not batch.stored:
                return
            broken += map(line_of, batch.refused)
        if broken:
            _keep_broken(slot.path + _BROKEN, broken)
        start = end


def _read(fd: int, start: int) -> tuple[list[Record], list[bytes], int]:
    """Records and broken lines from an offset on, and the offset behind them."""
    records: list[Record] = []
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


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and _is_record(record) else None


def _is_record(record: Record) -> bool:
    texts = [record.get("key"), record.get("event_type"), record.get("session_id") or record.get("native_session_id")]
    return (
        record.get("v") == VERSION
        and all(isinstance(text, str) and text for text in texts)
        and isinstance(record.get("payload"), dict)
        and isinstance(record.get("at"), int | float)
    )


def _keep_broken(path: str, lines: Sequence[bytes]) -> None:
    """A file of which a later piece could not be stored comes again, and its broken lines are kept once."""
    known = set()
    if 0 < size_of(path) <= _LARGEST_BROKEN:
        known = set(read_file(path, _LARGEST_BROKEN).splitlines(keepends=True))
    if fresh := [line for line in map(ended, lines) if line not in known]:
        write_file(path, os.O_APPEND, b"".join(fresh))
        sync_folder(os.path.dirname(path))


def _by_age(folder: str) -> list[str]:
    try:
        paths = _files(folder, os.listdir(folder))
    except FileNotFoundError:
        return []
    return sorted(paths, key=lambda path: (_since(path), path))


def _files(folder: str, names: Sequence[str]) -> list[str]:
    """The sessions' files, also those for which events were only put aside; no folders and no pipes."""
    stems = {name.removesuffix(ASIDE) for name in names}
    paths = [os.path.join(folder, stem) for stem in stems if stem.endswith(FILE)]
    return [path for path in paths if size_of(path) >= 0 or os.path.islink(path) or not os.path.lexists(path)]


def _since(path: str) -> float:
    """When the first event came; of a file whose beginning does not tell, when it was last written."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except OSError:
        return _changed(path + ASIDE)
    try:
        head = os.pread(fd, _HEAD, 0)
        return float(head.partition(b'"at":')[2].partition(b",")[0])
    except ValueError:
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return time.time()


def _forget_aliases(folder: str) -> None:
    """Take away the names of sessions for which nothing waits any more, under the lock that those hold who leave them."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(ALIAS)]
    except OSError:
        return
    for name in names:
        alias = os.path.join(folder, name)
        try:
            slot = lock_path(path_of(folder, os.readlink(alias)), 0)
            if slot is None:
                continue
            try:
                if not slot.has_events():
                    os.unlink(alias)
                    slot.remove()
            finally:
                slot.close()
        except (OSError, ValueError):
            continue
