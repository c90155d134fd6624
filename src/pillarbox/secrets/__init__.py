"""Where credentials come from, and how what must not be read is kept."""

from typing import cast

from pillarbox.secrets.keyfile import NEEDED, load_key
from pillarbox.secrets.references import check_reference, read_reference
from pillarbox.secrets.sealing import Keyless, Sealer

__all__ = ["Keyless", "Sealer", "check_reference", "keyless", "load_key", "open_sealer", "read_reference"]


def open_sealer(setting: str | None, *, sqlite_file: str | None) -> Sealer:
    """The sealer of a database: by the key that is set, or the one beside its file."""
    key = load_key(setting, sqlite_file=sqlite_file)
    return keyless(NEEDED) if key is None else Sealer(key)


def keyless(sentence: str) -> Sealer:
    """Stands where there is no key, and says this sentence to whatever needs one."""
    return cast(Sealer, Keyless(sentence))
