"""The ways in which a server may say again what it was told, and how somebody would read it all the same."""

import html
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from functools import cache
from urllib.parse import quote, quote_plus, unquote, unquote_plus

DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "in capitals": str.upper,
    "in a URL": lambda text: quote(text, safe=""),
    "in a form": quote_plus,
    "in a form in a URL": lambda text: quote(quote_plus(text)),
    "in JSON": lambda text: json.dumps(text)[1:-1],
    "in JSON in JSON": lambda text: json.dumps(json.dumps(text))[3:-3],
    "in JSON with escapes": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "in JSON with slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "in HTML": html.escape,
    "in entities": lambda text: "".join(f"&#x{ord(char):x};" for char in text),
    "in base64": lambda text: b64encode(text.encode()).decode(),
    "in base64 after another letter": lambda text: b64encode(f"x{text}y".encode()).decode(),
    "in base64 after two letters": lambda text: b64encode(f"xx{text}yy".encode()).decode(),
    "in base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "in base64 in lines": lambda text: "\n".join(_every(6, b64encode(text.encode()).decode())),
    "in hex": lambda text: text.encode().hex(),
    "in hex with colons": lambda text: ":".join(_every(2, text.encode().hex())),
    "in two lines": lambda text: f"{text[: len(text) // 2]}\n{text[len(text) // 2 :]}",
    "with other blanks": lambda text: text.replace(" ", "  "),
}
_READ_AGAIN: list[Callable[[str], str]] = [
    unquote,
    unquote_plus,
    html.unescape,
    lambda text: re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text),
    lambda text: re.sub(r"\\([\"\\/])", r"\1", text),
    lambda text: re.sub(r"\s+", "", text),
    lambda text: " ".join(_decoded(re.findall(r"[\w+/-]{4,}", text))),
    lambda text: " ".join(_decoded(run[1:] for run in re.findall(r"[\w+/-]{4,}", text))),
    lambda text: " ".join(_decoded(run[2:] for run in re.findall(r"[\w+/-]{4,}", text))),
    lambda text: " ".join(_decoded(run[3:] for run in re.findall(r"[\w+/-]{4,}", text))),
    lambda text: " ".join(_from_hex(re.findall(r"[0-9a-f]{8,}", text.replace(":", "")))),
]


@cache
def everything_in(text: str) -> set[str]:
    """A text, and whatever can be read in it in two steps."""
    found = {text}
    for _ in range(2):
        found |= {read(each) for each in found for read in _READ_AGAIN}
    return {form for each in found for form in (each.lower(), re.sub(r"\W+", "", each.lower()))}


def told(text: str, words: Iterable[str]) -> list[str]:
    """Those of the words that somebody can read in a text."""
    found = "\0".join(everything_in(text))
    return [word for word in words if word.lower() in found]


def _every(count: int, text: str) -> list[str]:
    return [text[at : at + count] for at in range(0, len(text), count)]


def _decoded(runs: Iterable[str]) -> list[str]:
    whole = [run.replace("-", "+").replace("_", "/") for run in runs]
    whole = [run[: len(run) - (len(run) % 4 == 1)] for run in whole if run.isascii()]
    return [b64decode(run + "=" * (-len(run) % 4)).decode("utf-8", "ignore") for run in whole]


def _from_hex(runs: Iterable[str]) -> list[str]:
    return [bytes.fromhex(run[: len(run) // 2 * 2]).decode("utf-8", "ignore") for run in runs]
