"""What an attachment must look like when it is handed in; files and URLs are judged again when they are read."""

from __future__ import annotations

import binascii
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pillarbox.errors import InvalidInput
from pillarbox.outbound.destinations import check_url
from pillarbox.outbound.model import NewAttachment
from pillarbox.text import check_name

MOST_ATTACHMENTS = 100
LARGEST_IN_ALL = 10 * 1024 * 1024

_WORD = r"[A-Za-z0-9!#$&^_.+-]{1,127}"
_CONTENT_TYPE = re.compile(rf'{_WORD}/{_WORD}(?: ?; ?{_WORD}=(?:{_WORD}|"[ !#-\[\]-~]{{0,127}}")){{0,8}}')


def check_attachments(
    attachments: Sequence[NewAttachment], *, roots: Sequence[str], trusted: frozenset[str]
) -> tuple[NewAttachment, ...]:
    """Refuse attachments that are too large, ill-named, or come from where none may come from."""
    if len(attachments) > MOST_ATTACHMENTS:
        raise InvalidInput("attachments", f"must be at most {MOST_ATTACHMENTS}.")
    left = LARGEST_IN_ALL
    for index, attachment in enumerate(attachments):
        field = f"attachments.{index}"
        _check_names(field, attachment)
        match attachment:
            case NewAttachment(content=str(content), path=None, url=None):
                left -= _decoded_size(f"{field}.content", content, most=left)
            case NewAttachment(content=None, path=str(path), url=None):
                _check_path(f"{field}.path", path, roots)
            case NewAttachment(content=None, path=None, url=str(url)):
                check_url(f"{field}.url", url, trusted=trusted)
            case _:
                raise InvalidInput(field, "must have exactly one of content, path and url.")
    return tuple(attachments)


def _check_names(field: str, attachment: NewAttachment) -> None:
    name = check_name(f"{field}.filename", attachment.filename, most=255)
    if re.search(r"[/\\]", name) or name.strip() in ("", ".", ".."):
        raise InvalidInput(f"{field}.filename", "must be a plain name, without folders.")
    if attachment.content_type is not None:
        kind = attachment.content_type
        if len(kind) > 255 or not _CONTENT_TYPE.fullmatch(kind) or kind.lower().startswith("multipart/"):
            raise InvalidInput(f"{field}.content_type", "must be the media type of one file, such as application/pdf.")


def _decoded_size(field: str, content: str, *, most: int) -> int:
    """Sized before it is decoded: a request may carry more than an email may."""
    if len(content) // 4 * 3 - 2 > most:
        raise InvalidInput(field, f"must not make more than {LARGEST_IN_ALL} bytes of attachments in all.")
    try:
        size = len(binascii.a2b_base64(content, strict_mode=True))
    except ValueError:
        raise InvalidInput(field, "must be base64, without blanks or line ends.") from None
    if size > most:
        raise InvalidInput(field, f"must not make more than {LARGEST_IN_ALL} bytes of attachments in all.")
    return size


def _check_path(field: str, path: str, roots: Sequence[str]) -> None:
    check_name(field, path, most=4096)
    parts = PurePosixPath(path)
    if not parts.is_absolute() or ".." in parts.parts:
        raise InvalidInput(field, "must be an absolute path without `..`.")
    if not any(root in parts.parents for root in map(PurePosixPath, roots)):
        raise InvalidInput(field, "must be below one of outbound.attachment_roots.")
