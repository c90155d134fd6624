"""What an operator wants to know of a box beside its database: its key, and what receivers could not bring to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pillarbox.errors import SettingsError, Unavailable
from pillarbox.opening import sqlite_path
from pillarbox.outbound.checks import check_key, remembered_key
from pillarbox.secrets import Sealer, keyless, open_sealer
from pillarbox.secrets.keyfile import key_file_of, missing
from pillarbox.storage.checkup import Finding
from pillarbox.storage.migrate import schema_version

if TYPE_CHECKING:
    from pillarbox.hooks.pipe import Hooks
    from pillarbox.settings import Settings
    from pillarbox.storage import Database

# The schema that first remembered a key.
_REMEMBERS = 4


class Key:
    """The key of a database: where it comes from, and whether it is the one that the database was begun with."""

    def __init__(
        self, database: Database, sealer: Sealer, *, file: str | None = None, fault: str | None = None
    ) -> None:
        self._database = database
        self._file = file
        self._fault = fault
        self.sealer = sealer

    @classmethod
    async def find(cls, database: Database, settings: Settings, url: str) -> Key:
        """By the setting, or beside the file, where one is made unless this database was begun with another."""
        path = sqlite_path(url)
        file = None if settings.secrets.key is not None or path is None else key_file_of(path)
        try:
            if file is not None and not file.exists() and await _has_one(database) and not file.exists():
                raise missing(file)
            return cls(database, open_sealer(settings.secrets.key, sqlite_file=path), file=str(file) if file else None)
        except SettingsError as error:
            return cls(database, keyless(str(error)), file=str(file) if file else None, fault=str(error))

    @property
    def lacking(self) -> str | None:
        """Why nothing can be sealed or sent, if it cannot."""
        try:
            _ = self.sealer.key_id
        except Unavailable as error:
            return str(error)
        return None

    async def require(self) -> None:
        """Refuse a key that is missing or another than the first; the first one is remembered."""
        if self._fault is not None:
            raise SettingsError(self._fault)
        if self.lacking is None:
            await check_key(self._database, self.sealer.key_id, file=self._file)

    async def check(self) -> Finding:
        """The same as an operator's question, for which nothing is written."""
        if self._fault is not None:
            return Finding("secrets.key", False, self._fault)
        if self.lacking is not None:
            return Finding("secrets.key", True, f"warning: nothing can be sent. {self.lacking}")
        try:
            if await _has_one(self._database):
                await check_key(self._database, self.sealer.key_id, file=self._file)
        except SettingsError as error:
            return Finding("secrets.key", False, str(error))
        except Unavailable:
            return Finding("secrets.key", True, "there; the database cannot be asked whether it is the right one")
        return Finding("secrets.key", True, "there")


async def check_spool(hooks: Hooks) -> Finding:
    """What receivers wrote beside the database because they could not reach it."""
    spool = await hooks.spooled()
    if spool.broken:
        return Finding(
            "hook spool",
            False,
            f"{spool.broken} files ending in .broken cannot be read; look into them, then delete them.",
        )
    if spool.files:
        age = f"{spool.oldest_age_seconds or 0:.0f} s"
        said = f"{spool.files} files of events wait, the oldest for {age}; start a daemon."
        return Finding("hook spool", True, f"warning: {said}")
    return Finding("hook spool", True, "nothing waits")


async def _has_one(database: Database) -> bool:
    return await schema_version(database) >= _REMEMBERS and await remembered_key(database) is not None
