"""The folder where files lie: each content once, under its own digest, for as long as a message needs it.

by-message/17.json             what is known of the files of message 17
ab/abcdef.../report.pdf        a content, under a name that tells what it is
ab/abcdef.../.for/17           message 17 needs it
"""

from __future__ import annotations

import mimetypes
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from pillarbox.media.model import Entry, Kept, NotNow, Reference
from pillarbox.media.room import ENTRIES, Room

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80
_MOST_TRIES = 3
_KNOWN = {"audio/ogg": ".ogg", "image/jpeg": ".jpg", "image/webp": ".webp", "audio/mpeg": ".mp3", "audio/mp4": ".m4a"}


class MediaStore:
    """Files on this machine; every call blocks, and what it returns is on disk."""

    def __init__(self, folder: str, *, max_total_bytes: int) -> None:
        self.root = Path(folder)
        self.entries = self.root / ENTRIES
        self.room = Room(self.root, max_total_bytes)

    def entry(self, message_id: int) -> Entry | None:
        """What is known of a message's files; one that is not there any more is to be fetched again."""
        try:
            entry = msgspec.json.decode(self._entry_file(message_id).read_bytes(), type=Entry)
        except (OSError, msgspec.MsgspecError):
            return None
        there = [kept if kept.path is None or os.path.isfile(kept.path) else Kept() for kept in entry.files]
        return msgspec.structs.replace(entry, files=tuple(there))

    def write(self, message_id: int, entry: Entry) -> None:
        """Remember what is known of a message's files."""
        try:
            self.entries.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(self._entry_file(message_id), msgspec.json.encode(entry))
        except OSError as error:
            raise NotNow(f"The media folder cannot be written ({error.strerror}).") from error

    def put(self, message_id: int, content: bytes, about: Reference) -> Kept:
        """Keep a content for a message."""
        digest = sha256(content).hexdigest()
        folder = self.root / digest[:2] / digest
        file = folder / file_name(about)
        try:
            for _ in range(_MOST_TRIES):
                (folder / ".for").mkdir(parents=True, exist_ok=True, mode=0o700)
                (folder / ".for" / str(message_id)).touch()
                if not file.exists():
                    self.room.take(len(content), about.chat)
                    _write(file, content)
                # Whoever tidied up meanwhile may have moved the folder away.
                if file.exists():
                    return Kept(path=str(file), sha256=digest, size=len(content))
        except OSError as error:
            self.room.count_again()
            raise NotNow(f"The media folder cannot be written ({error.strerror}).") from error
        raise NotNow("The media folder is being tidied up.")

    def messages(self, limit: int, after: int) -> list[int]:
        """Messages that have files here, in order, from the one after `after`."""
        try:
            names = [entry.name for entry in os.scandir(self.entries)]
        except OSError:
            return []
        numbers = sorted(int(name[:-5]) for name in names if re.fullmatch(r"[0-9]{1,19}\.json", name))
        return [number for number in numbers if number > after][:limit]

    def forget(self, message_ids: Iterable[int]) -> int:
        """Let go of what these messages needed; a content that nobody needs any more is deleted."""
        done = 0
        for message_id in message_ids:
            for digest in _digests(self._entry_file(message_id)):
                self.let_go(digest, message_id)
            with suppress(OSError):
                self._entry_file(message_id).unlink()
                done += 1
        return done

    def tells_of(self, message_id: int, digest: str) -> bool:
        """Whether a message is known to need a content."""
        return digest in _digests(self._entry_file(message_id))

    def let_go(self, digest: str, message_id: int) -> None:
        """A message no longer needs a content; once nobody does, it is deleted."""
        folder = self.root / digest[:2] / digest
        with suppress(OSError):
            (folder / ".for" / str(message_id)).unlink(missing_ok=True)
            if any((folder / ".for").iterdir()):
                return
            aside = self.root / f".gone-{folder.name}-{os.getpid()}"
            folder.rename(aside)
            if any((aside / ".for").iterdir()):
                # Somebody needs it again since we looked.
                aside.rename(folder)
            else:
                shutil.rmtree(aside, ignore_errors=True)
                self.room.count_again()

    def _entry_file(self, message_id: int) -> Path:
        return self.entries / f"{message_id}.json"


def file_name(about: Reference) -> str:
    """A name that a shell and an agent can use as it is: the sender's, or one that tells the kind."""
    given = _ODD.sub("_", os.path.basename((about.name or "").replace("\\", "/"))).strip("._")
    stem, ending = os.path.splitext(given)
    if not ending:
        mime = (about.mime or "").partition(";")[0].strip().lower()
        ending = (
            _KNOWN.get(mime)
            or mimetypes.guess_extension(mime)
            or {"photo": ".jpg", "voice": ".ogg"}.get(about.kind or "", "")
        )
    return (stem or _ODD.sub("_", about.kind or "file"))[: _LONGEST_NAME - len(ending)] + ending[:16]


def _digests(entry_file: Path) -> Sequence[str]:
    try:
        entry = msgspec.json.decode(entry_file.read_bytes(), type=Entry)
    except (OSError, msgspec.MsgspecError):
        return ()
    return [kept.sha256 for kept in entry.files if kept.sha256 and re.fullmatch(r"[0-9a-f]{64}", kept.sha256)]


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, and on disk when this returns."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
