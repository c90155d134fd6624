"""`[conversations]` and `[media]`: what agents say to chats, and what chats send besides text."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta

from pillarbox.errors import SettingsError
from pillarbox.settings.shapes import Attempts, Bytes, Days, Name, Seconds, Section

_BASE_URL = re.compile(r"https?://[\x21-\x7e]+(?<!/)")


class Conversations(Section, frozen=True, kw_only=True):
    """What agents say, told to the chats of their sessions."""

    replies: Annotated[bool, Meta(description="Whether chats are told what the agents of their sessions say.")] = True
    look_seconds: Annotated[Seconds, Meta(description="The time between two looks at agents' transcripts.")] = 0.5
    quiet_seconds: Annotated[
        Seconds, Meta(description="How long a watched terminal must be still before its new lines are told.")
    ] = 2.0
    previews: Annotated[
        bool, Meta(description="Whether a chat sees, in one message that is edited, what its agent is doing.")
    ] = False
    preview_seconds: Annotated[Seconds, Meta(description="The least time between two such edits in a chat.")] = 3.0
    threaded: Annotated[
        bool, Meta(description="Whether what an agent says in one turn answers the first message of that turn.")
    ] = False
    commands: Annotated[
        bool, Meta(description="Whether `/queue`, `/cancel` and `/help` in a chat are answered instead of delivered.")
    ] = True
    busy_limit_seconds: Annotated[
        Seconds, Meta(description="How long an agent that tells nothing still counts as being at work.")
    ] = 1800.0
    retention_days: Annotated[Days, Meta(description="How long what was said is kept.")] = 7.0


class Transcription(Section, frozen=True, kw_only=True):
    """How voice messages become text; unset: they arrive as files."""

    engine: Annotated[
        Literal["none", "http", "whisper"],
        Meta(description="Nothing, an OpenAI-compatible server, or whisper.cpp in this process (extra `whisper`)."),
    ] = "none"
    base_url: Annotated[
        str, Meta(description="Where the server is; `/audio/transcriptions` is added. It may be on loopback.")
    ] = "https://api.openai.com/v1"
    api_key: Annotated[Name | None, Meta(description="What opens the server; unset: none is sent.")] = None
    model: Annotated[Name, Meta(description="The model: its name at the server, or a model of whisper.cpp.")] = (
        "whisper-1"
    )
    language: Annotated[
        Annotated[str, Meta(pattern="^[a-z]{2,3}$")] | None,
        Meta(description="The language spoken, as in `en`; unset: it is guessed."),
    ] = None
    timeout_seconds: Annotated[Seconds, Meta(description="How long one transcription may take.")] = 120.0
    attempts: Annotated[
        Attempts,
        Meta(
            description="After how many attempts a voice message is delivered as a file instead, and, while the media folder is"
            " full, a message without its file."
        ),
    ] = 5

    def __post_init__(self) -> None:
        if not _BASE_URL.fullmatch(self.base_url):
            raise SettingsError(
                "media.transcription.base_url must begin with http:// or https:// and not end with a slash."
            )


class Media(Section, frozen=True, kw_only=True):
    """Voice messages and files that people send."""

    folder: Annotated[
        Name | None, Meta(description="Where they are kept, an absolute path; unset: beside the SQLite file.")
    ] = None
    max_bytes: Annotated[Bytes, Meta(description="The largest file that is fetched.")] = 20 * 1024 * 1024
    max_total_bytes: Annotated[
        Bytes, Meta(description="How much the folder may hold; while it is full, messages with files wait.")
    ] = 10 * 1024 * 1024 * 1024
    fetch_timeout_seconds: Annotated[Seconds, Meta(description="How long fetching one file may take.")] = 60.0
    retention_days: Annotated[
        Days, Meta(description="How long a file is kept once its message was delivered or expired.")
    ] = 1.0
    transcription: Transcription = Transcription()

    def __post_init__(self) -> None:
        if self.folder is not None and not self.folder.startswith("/"):
            raise SettingsError("media.folder must be an absolute path.")
        if self.max_total_bytes < self.max_bytes:
            raise SettingsError("media.max_total_bytes must not be less than media.max_bytes.")
