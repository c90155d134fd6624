"""What settings ask for that is installed only with an extra."""

from __future__ import annotations

from importlib.util import find_spec

from pillarbox.errors import SettingsError
from pillarbox.settings.tree import Settings


def missing_extras(settings: Settings) -> list[str]:
    """A sentence for each thing that is asked for and cannot be done, with what to install."""
    discord = settings.adapters.discord
    missing = []
    if discord.bot_token is not None and discord.listen and find_spec("hikari") is None:
        missing.append(
            "adapters.discord.bot_token: listening to Discord needs an extra; run pip install 'pillarbox[discord]',"
            " or set adapters.discord.listen to false."
        )
    if settings.media.transcription.engine == "whisper" and find_spec("pywhispercpp") is None:
        missing.append(
            "media.transcription.engine: whisper needs an extra; run pip install 'pillarbox[whisper]',"
            " or choose another engine."
        )
    return missing


def require_extras(settings: Settings) -> None:
    """Refuse to begin to work without what the settings ask for."""
    if missing := missing_extras(settings):
        raise SettingsError(" ".join(missing))
