"""Attachments as they are at the moment of sending."""

from __future__ import annotations

import asyncio
import binascii
import mimetypes
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pillarbox.outbound.attachment_rules import LARGEST_IN_ALL
from pillarbox.outbound.client import Answer, Client, NotSent, Unanswered
from pillarbox.outbound.destinations import Blocked
from pillarbox.outbound.files import Forbidden, TooLarge, read_below
from pillarbox.outbound.model import NewAttachment
from pillarbox.outbound.provider import Attachment
from pillarbox.posting import error_kind

_UNKNOWN_KIND = "application/octet-stream"
_KIND = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")
_PASSING = frozenset({408, 425, 429})


class AttachmentRefused(Exception):
    """An attachment that will never be sent; the text names its file and may be shown to anyone."""


class AttachmentUnavailable(Exception):
    """An attachment that cannot be had now; the text names its file and may be shown to anyone."""


class AttachmentReader:
    """Reads what a message takes along, within one deadline and the limit on all of it."""

    def __init__(self, client: Client, *, roots: Sequence[str]) -> None:
        self._client = client
        self._roots = tuple(roots)

    async def read(
        self, attachments: Sequence[NewAttachment], *, deadline: float, trusted: frozenset[str] = frozenset()
    ) -> tuple[Attachment, ...]:
        """Read every attachment, or raise `AttachmentRefused` or `AttachmentUnavailable`."""
        read: list[Attachment] = []
        left = LARGEST_IN_ALL
        ends = asyncio.get_running_loop().time() + deadline
        for attachment in attachments:
            name = _plain_name(attachment.filename)
            seconds = max(0.0, ends - asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(seconds):
                    found = await self._read(name, attachment, left, seconds, trusted)
            except TimeoutError:
                raise AttachmentUnavailable(
                    f"The attachment {name!r} could not be read within {deadline:g} s."
                ) from None
            read.append(found)
            left -= len(found.content)
        return tuple(read)

    async def _read(
        self, name: str, attachment: NewAttachment, left: int, seconds: float, trusted: frozenset[str]
    ) -> Attachment:
        kind = attachment.content_type or _kind_by_name(name)
        try:
            if attachment.content is not None:
                content = await asyncio.to_thread(_decoded, attachment.content, left)
            elif attachment.path is not None:
                content = await asyncio.to_thread(read_below, attachment.path, self._roots, most=left)
            elif attachment.url is not None:
                answer = await self._client.download(attachment.url, most=left + 1, deadline=seconds, trusted=trusted)
                content = _judged(answer, left)
                kind = attachment.content_type or _kind_answered(answer) or kind
            else:
                raise Forbidden("has no content.")
        except Forbidden as fault:
            raise AttachmentRefused(f"The attachment {name!r} {fault}") from None
        except TooLarge:
            limit = f"there may be {LARGEST_IN_ALL} bytes of attachments in all"
            raise AttachmentRefused(f"The attachment {name!r} is too large: {limit}.") from None
        except Blocked as blocked:
            raise AttachmentRefused(f"The attachment {name!r} was not fetched. {blocked}") from None
        except (NotSent, Unanswered) as trouble:
            raise AttachmentUnavailable(f"The attachment {name!r} could not be fetched. {trouble}") from None
        except TimeoutError:
            raise
        except OSError as error:
            raise AttachmentUnavailable(f"The attachment {name!r} could not be read{error_kind(error)}.") from None
        return Attachment(name, kind, content)


def _decoded(content: str, most: int) -> bytes:
    try:
        decoded = binascii.a2b_base64(content, strict_mode=True)
    except ValueError:
        raise Forbidden("is not base64.") from None
    if len(decoded) > most:
        raise TooLarge
    return decoded


def _judged(answer: Answer, most: int) -> bytes:
    """The file an answer carries."""
    if answer.status in _PASSING or answer.status >= 500:
        raise Unanswered(f"The server answered HTTP {answer.status}.")
    if answer.status != 200:
        raise Forbidden(f"could not be fetched: the server answered HTTP {answer.status}.")
    if answer.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise Forbidden("could not be fetched: the server compresses it unasked.")
    if len(answer.body) > most:
        raise TooLarge
    if not answer.complete:
        raise Unanswered("The server's answer broke off.")
    return bytes(answer.body)


def _plain_name(filename: str) -> str:
    """The name alone, whatever folders it was handed in with."""
    name = "".join(letter for letter in PurePosixPath(filename.replace("\\", "/")).name if letter.isprintable())
    return name if name.strip(". ") else "attachment"


def _kind_by_name(name: str) -> str:
    kind, packed = mimetypes.guess_type(name, strict=True)
    return kind if kind is not None and packed is None else _UNKNOWN_KIND


def _kind_answered(answer: Answer) -> str | None:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind if _KIND.fullmatch(kind) and not kind.startswith(("multipart/", "message/")) else None
