"""`pillarbox hook`: keeps one event of an agent, says nothing and always succeeds; the agent waits, so it imports little."""

import _thread
import json
import os
import select
import time

from pillarbox.hooks import spool
from pillarbox.hooks.disk import read_file
from pillarbox.hooks.store import WouldOvertake, store
from pillarbox.hooks.vocabulary import normalise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DEFAULT_DATABASE = "sqlite:///pillarbox.db"
DEFAULT_SETTINGS = "pillarbox.toml"
LARGEST_INPUT = 16 * 1024 * 1024
LARGEST_SETTINGS = 1024 * 1024
SILENCE_SECONDS = 2.0
INPUT_SECONDS = 3.0
LOCK_SECONDS = 1.5
# From the start on; for an event that was read just before, a little later.
RESCUE_SECONDS = 4.0
SHORTEST_TURN = 0.5
_MOST_LOOKS = 8
_STARTED = time.monotonic()


class BrokenInput(Exception):
    """What the agent gave is no event; the text tells why without repeating any of it."""


def receive(arguments: list[str], was_read: "Callable[[], None]") -> None:
    """Read one event, say so, and keep it: in the database, or else in the spool."""
    options = _options(arguments)
    agent = options.get("--agent")
    record = _record(arguments, agent if agent and is_name(agent, 100) else None)
    was_read()
    if record is not None:
        database = options.get("--database") or os.environ.get("PILLARBOX_DATABASE") or DEFAULT_DATABASE
        named = options.get("--spool-dir") or _spool_dir(options.get("--config") or DEFAULT_SETTINGS)
        folder = os.path.abspath(named or spool.default_spool_dir(database))
        _thread.start_new_thread(_rescue, (record, folder))
        keep(record, database, folder)


def keep(record: "dict[str, Any]", database: str, folder: str) -> None:
    """Store an event, never before older ones of its session that wait in the spool."""
    key = spool.key_of(folder, spool.keys_of(record))
    tried = False
    try:
        slot = spool.lock(folder, key, seconds=LOCK_SECONDS)
        if slot is not None and not slot.has_events():
            tried = True
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
    except (OSError, ValueError):
        _keep_somewhere(record, database, folder, tried=tried)


def _keep_somewhere(record: "dict[str, Any]", database: str, folder: str, *, tried: bool) -> None:
    """Where the session's file cannot be had or written, out of order is better than not at all."""
    key = spool.key_of(folder, spool.keys_of(record))
    if tried or spool.is_waiting(folder, key):
        try:
            spool.put_aside(folder, key, record)
            return
        except (OSError, ValueError):
            if tried:
                raise
    try:
        store(record, database, None)
    except Exception:
        spool.put_aside(folder, key, record)


def _rescue(record: "dict[str, Any]", folder: str) -> None:
    """An event that is not kept when time runs out goes to the spool; if it was kept after all, its key tells."""
    time.sleep(max(SHORTEST_TURN, _STARTED + RESCUE_SECONDS - time.monotonic()))
    try:
        spool.put_aside(folder, spool.key_of(folder, spool.keys_of(record)), record)
    finally:
        os._exit(0)


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
    """Everything on stdin, or the event as soon as it is whole, or what came before we had waited long enough."""
    deadline = time.monotonic() + INPUT_SECONDS
    text = bytearray()
    size = looks = 0
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([0], [], [], 0)[0]:
            # Nothing more for now: an agent that leaves the pipe open would keep us, and we the agent.
            looks += 1
            if looks <= _MOST_LOOKS and _is_whole(text):
                break
            if not select.select([0], [], [], min(left, SILENCE_SECONDS))[0]:
                break
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
            text += piece
        # The rest is read all the same: an agent must not fail because we do not listen.
    if size > LARGEST_INPUT:
        raise BrokenInput("The input of the hook is larger than 16 MiB.")
    return bytes(text)


def _is_whole(text: bytearray) -> bool:
    if not text.rstrip().endswith(b"}"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _options(arguments: list[str]) -> dict[str, str]:
    """What follows each `--option`; what we do not know does no harm."""
    found: dict[str, str] = {}
    for place, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            found[name] = value if equals else "".join(arguments[place + 1 : place + 2])
    return found


def _spool_dir(settings: str) -> str | None:
    """The folder that the settings name."""
    if given := os.environ.get("PILLARBOX_HOOKS__SPOOL_DIR"):
        return given
    try:
        text = read_file(os.path.realpath(settings), LARGEST_SETTINGS)
        if b"spool_dir" not in text:
            return None
        import tomllib

        given = tomllib.loads(text.decode())["hooks"]["spool_dir"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return given if isinstance(given, str) else None


def is_name(text: str, most: int) -> bool:
    """The rule of `pillarbox.text.check_name`, which takes too long to import."""
    return 1 <= len(text) <= most and not any(
        letter < " " or "\x7f" <= letter <= "\x9f" or letter in "\u2028\u2029" or "\ud800" <= letter <= "\udfff"
        for letter in text
    )
