"""What is typed into a terminal for a message: nothing that acts, and who spoke in a line that nobody can forge."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC
from hashlib import sha256

from pillarbox.inbound.attachment import described
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.look_alikes import BLANK_LETTERS, QUOTES, begins_as_envelope, opens_bracket

LONGEST_NAME = 64
_NOTHING = "(nothing that can be typed)"

# All of C0 and C1 but tab and newline, and DEL: single code points, so that nothing left over can join to a sequence.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_ENDS = re.compile("\r\n?")
# All that somebody who reads the text may take for the end of a line.
_LINE_ENDS_SEEN = re.compile("([\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029])")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_ENVELOPE = re.compile(r'\["(?:[^"\\]|\\.)*" via (?:[^\]\\]|\\.)*\]\s?')


def typed(message: InboundMessage, *, envelope: bool, single_line: bool) -> str:
    """The text for a terminal; never empty, so that nobody is sent a bare Enter."""
    body = _body(message) or _NOTHING
    if single_line:
        # Before anything is escaped: what stands on two lines may be an envelope once they are one.
        body = _on_one_line(body)
    if envelope and message.actor_name is not None:
        body = f"{_spoken_by(message.actor_name, message.origin)} {fenced(body)}"
    elif envelope:
        body = unsigned(body)
    return body


def clean(text: str) -> str:
    """Text whose only control characters are tabs and newlines, with none at its end; blank text becomes empty."""
    kept = _ACTING.sub("", _LINE_ENDS.sub("\n", text)).rstrip("\n")
    return kept if kept.strip() else ""


def fenced(body: str) -> str:
    """A body of which no line but the first, which follows the real envelope, can be taken for one."""
    first, *others = _LINE_ENDS_SEEN.split(body)
    return "".join([first, *(f"\\{part}" if opens_bracket(part) else part for part in others)])


def unsigned(body: str) -> str:
    """The body of a message of nobody, which cannot be taken for somebody's: a line that begins as an envelope does is escaped.

    Every other line stays exactly as it is, those of JSON and of lists too.
    """
    return "".join(f"\\{part}" if begins_as_envelope(part) else part for part in _LINE_ENDS_SEEN.split(body))


def without_envelope(prompt: str) -> str:
    """What was said, of a prompt that tells who said it."""
    found = _ENVELOPE.match(prompt)
    return prompt[found.end() :] if found else prompt


def one_line(text: str) -> str:
    """A foreign name on one line, cut short, its invisible characters removed and whatever looks like a delimiter escaped."""
    shown = (c for c in _BLANKS.sub(" ", text) if c not in BLANK_LETTERS)
    visible = "".join(c for c in shown if unicodedata.category(c) not in ("Cf", "Cc", "Co"))
    visible = " ".join(visible.split())
    if len(visible) > LONGEST_NAME:
        visible = visible[: LONGEST_NAME - 1] + "…"
    return "".join(f"\\{c}" if _is_delimiter(c) else c for c in visible) or "unknown"


def mark_of(message: InboundMessage) -> str:
    """A name for the message that no message of another session or database has, made of characters that tmux leaves alone.

    It is the same at each attempt, whatever is learned about the message in between.
    """
    told = f"{message.session_id}\0{message.id}\0{message.created_at.astimezone(UTC).isoformat()}"
    return f"{session_key(message.session_id)}.{message.id}.{sha256(told.encode()).hexdigest()[:12]}"


def session_key(session_id: str) -> str:
    return sha256(session_id.encode()).hexdigest()[:12]


def _body(message: InboundMessage) -> str:
    said = clean(message.content)
    if message.message_type == "text":
        return said
    return clean(described(message.message_type, message.content if said else "", message.payload_json))


def _spoken_by(name: str, origin: str) -> str:
    return f'["{one_line(name)}" via {one_line(origin)}]'


def _on_one_line(text: str) -> str:
    """For a program that takes each newline as an Enter, and perhaps a tab as a wish for completion."""
    return " ".join(re.split("[\n\t]", text))


def _is_delimiter(character: str) -> bool:
    if character in QUOTES or unicodedata.normalize("NFKC", character) in ('"', "\\"):
        return True
    return unicodedata.category(character) in ("Ps", "Pe") and character not in "()"
