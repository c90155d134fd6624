"""`pillarbox hook`: keeps one event of an agent, says nothing and always succeeds; the agent waits, so it imports little."""

import json
import os
import select
import signal
import time

from pillarbox.hooks import spool
from pillarbox.hooks.store import WouldOvertake, store
from pillarbox.hooks.vocabulary import normalise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

DEFAULT_DATABASE = "sqlite:///pillarbox.db"
LARGEST_INPUT = 16 * 1024 * 1024
INPUT_SECONDS = 5.0
LOCK_SECONDS = 1.5


class BrokenInput(Exception):
    """What the agent gave is no event; the text tells why without repeating any of it."""


def main(arguments: list[str]) -> "NoReturn":
    """Take one event and end the process, with success and in silence whatever happens."""
    try:
        _be_silent()
        receive(arguments)
    finally:
        os._exit(0)


def receive(arguments: list[str]) -> None:
    """Read one event and keep it: in the database, or else in the spool."""
    options = _options(arguments)
    agent = options.get("--agent")
    record = _record(arguments, agent if agent and is_name(agent, 100) else None)
    if record is not None:
        database = options.get("--database") or os.environ.get("PILLARBOX_DATABASE") or DEFAULT_DATABASE
        folder = options.get("--spool-dir") or _spool_dir() or spool.default_spool_dir(database)
        keep(record, database, os.path.abspath(folder))


def keep(record: "dict[str, Any]", database: str, folder: str) -> None:
    """Store an event, never before older ones of its session that wait in the spool."""
    named = {"session": record["session_id"], "native": record["native_session_id"]}
    keys = [f"{kind}:{name}" for kind, name in named.items() if name]
    key = next((key for key in keys if spool.is_waiting(folder, key)), keys[0])
    try:
        slot = spool.lock(folder, key, seconds=LOCK_SECONDS)
    except OSError:
        # Without a spool there is nothing to overtake, and nowhere else to go.
        store(record, database, folder)
        return
    if slot is not None and not slot.has_events():
        try:
            store(record, database, folder)
            slot.remove()
            return
        except WouldOvertake as older:
            slot.remove()
            slot, key = spool.lock(folder, older.key, seconds=LOCK_SECONDS), older.key
        except Exception:  # noqa: S110 - whatever the database's trouble is, the spool is the answer
            pass
    if slot is None:
        spool.put_aside(folder, key, record)
    else:
        slot.append(record)


def _record(arguments: list[str], agent: str | None) -> "dict[str, Any] | None":
    """The event as it is kept; None when it is not on the list or nobody knows whose it is."""
    named = os.environ.get("PILLARBOX_SESSION", "")
    session_id = named if is_name(named, 200) else None
    try:
        event = _event(arguments, agent)
    except BrokenInput as broken:
        event = ("error", {"code": "broken_input", "message": str(broken)}, None)
    if event is None or not (session_id or event[2]):
        return None
    event_type, payload, native = event
    return {
        "v": spool.VERSION,
        "at": time.time(),
        "key": os.urandom(16).hex(),
        "session_id": session_id,
        "native_session_id": native,
        "agent": agent,
        "event_type": event_type,
        "payload": payload,
    }


def _event(arguments: list[str], agent: str | None) -> "tuple[str, dict[str, Any], str | None] | None":
    # Codex gives its notifications as the last argument.
    given = arguments[-1].encode(errors="replace") if arguments and arguments[-1].startswith("{") else _stdin()
    try:
        raw = json.loads(given)
    except (ValueError, RecursionError):
        raise BrokenInput("The input of the hook is not JSON.") from None
    if not isinstance(raw, dict):
        raise BrokenInput("The input of the hook is not a JSON object.")
    return normalise(agent, raw)


def _stdin() -> bytes:
    """Everything on stdin, or what came of it before we had waited long enough."""
    deadline = time.monotonic() + INPUT_SECONDS
    pieces: list[bytes] = []
    size = 0
    while (left := deadline - time.monotonic()) > 0 and select.select([0], [], [], left)[0]:
        try:
            piece = os.read(0, 65_536)
        except BlockingIOError:
            continue
        except OSError:
            break
        if not piece:
            break
        size += len(piece)
        if size <= LARGEST_INPUT:
            pieces.append(piece)
        # The rest is read all the same: an agent must not fail because we do not listen.
    if size > LARGEST_INPUT:
        raise BrokenInput("The input of the hook is larger than 16 MiB.")
    return b"".join(pieces)


def _options(arguments: list[str]) -> dict[str, str]:
    """What follows each `--option`; what we do not know does no harm."""
    found: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            found[name] = value if equals else "".join(arguments[place + 1 : place + 2])
    return found


def _spool_dir() -> str | None:
    """The folder that the settings name."""
    if given := os.environ.get("PILLARBOX_HOOKS__SPOOL_DIR"):
        return given
    try:
        with open("pillarbox.toml", "rb") as file:
            text = file.read()
        if b"spool_dir" not in text:
            return None
        import tomllib

        given = tomllib.loads(text.decode())["hooks"]["spool_dir"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return given if isinstance(given, str) else None


def is_name(text: str, most: int) -> bool:
    """The rule of `pillarbox.text.check_name`, which takes too long to import."""
    return 1 <= len(text) <= most and not any(
        letter < " " or "\x7f" <= letter <= "\x9f" or letter in "\u2028\u2029" or "\ud800" <= letter <= "\udfff"
        for letter in text
    )


def _be_silent() -> None:
    """Give nothing to read, and do not end halfway because the agent or its terminal does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
