"""Write-ahead logs as somebody finds them after a crash, and where in them what was committed ends."""

import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from random import Random

import apsw

from pillarbox.storage.sqlite_connection import connect

HEADER, FRAME, PAGE = 32, 24, 4096


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the log, and whether it ends a transaction."""

    place: int
    ends: bool

    @property
    def end(self) -> int:
        return self.place + FRAME + PAGE


def written(path: Path, *, rows: int) -> apsw.Connection:
    """A database whose every row was committed by itself, some of them over many pages."""
    random = Random(5)
    connection = connect(str(path), busy_timeout=10)
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, said TEXT)")
    for _ in range(rows):
        add(connection, random.randrange(30_000))
    return connection


def add(connection: apsw.Connection, length: int) -> None:
    connection.execute("INSERT INTO t (said) VALUES (?)", ("x" * length,))


def found(path: Path, folder: Path) -> Path:
    """The file and its log in another folder, as a crash leaves them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", folder / f"found.db{suffix}")
    return folder / "found.db"


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def frames(path: Path) -> list[Frame]:
    """The frames of the log's present generation."""
    log = log_of(path).read_bytes()
    places = range(HEADER, len(log) - PAGE - FRAME + 1, PAGE + FRAME)
    ours = [place for place in places if log[place + 8 : place + 16] == log[16:24]]
    return [Frame(place, struct.unpack_from(">I", log, place + 4) != (0,)) for place in ours]


def ends(path: Path) -> list[Frame]:
    return [frame for frame in frames(path) if frame.ends]


def overwrite(file: Path, place: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(content)


def flip(file: Path, place: int, bit: int) -> None:
    overwrite(file, place, bytes([file.read_bytes()[place] ^ 1 << bit]))


def rows_in(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").get)
