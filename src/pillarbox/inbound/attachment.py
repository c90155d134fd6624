"""What people sent besides text, in one line that a reader can act on."""

from __future__ import annotations

import json
import re
from typing import Any

_LINE_ENDS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LONGEST_NAME = 120


def described(message_type: str, content: str, payload_json: str | None) -> str:
    """A voice message or a file: what was said or written with it, where it lies, and what it is; never empty.

    Of a voice message that was understood only the words are told.
    """
    payload = json.loads(payload_json) if payload_json else {}
    payload = payload if isinstance(payload, dict) else {}
    said, caption = content.strip(), payload.get("caption")
    if message_type == "voice" and said and said != (caption.strip() if isinstance(caption, str) else ""):
        return content
    first = _line("Voice message" if message_type == "voice" else "File", payload)
    more = payload.get("more_files")
    others = [_line("File", each) for each in more if isinstance(each, dict)] if isinstance(more, list) else []
    return "\n".join(part for part in (said, first, *others) if part)


def _line(called: str, payload: dict[str, Any]) -> str:
    """`File: /path/report.pdf (document, application/pdf, 120 kB)`, and what is wrong with it or why there is no path."""
    path, trouble = payload.get("path"), payload.get("trouble")
    name = _one_line(payload.get("name"))
    facts = [_one_line(payload.get("kind")), _one_line(payload.get("mime")), _size(payload.get("size"))]
    seconds = payload.get("seconds")
    if isinstance(seconds, int) and not isinstance(seconds, bool):
        facts.append(f"{seconds} s")
    about = ", ".join(fact for fact in facts if fact)
    if isinstance(path, str) and path:
        shown = _ACTING.sub("", " ".join(path.split()))
        told = f"{called}: {shown}"
        known = (name if name and name not in shown else "", about, _one_line(trouble))
        about = ", ".join(part for part in known if part)
    else:
        told = f"{called}: {name or 'without a name'}"
        about = ", ".join(part for part in (about, _one_line(trouble) or "not available here") if part)
    return f"{told} ({about})" if about else told


def _one_line(value: object) -> str:
    if not isinstance(value, str):
        return ""
    shown = _LINE_ENDS.sub(" ", value).strip()
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"


def _size(value: object) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return ""
    for unit, factor in (("MB", 1_000_000), ("kB", 1000)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value} bytes"
