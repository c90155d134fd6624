"""What a platform that is asked or listened to should never tell: messages spoilt in one place, and frames that are none."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.adapters.platforms import Said, telegram_update
from tests.hostile.corpus.requests import BODIES_NOT_JSON, BODIES_OF_ANOTHER_SHAPE
from tests.hostile.corpus.texts import CANARY
from tests.hostile.corpus.values import NOT_JSON, VALUES
from tests.hostile.inputs import HERE, places_in, spoilt_at
from tests.servers.discord_api import CHANNEL, FIRST_MESSAGE, GUILD

_READABLE = tuple(value for value in VALUES if value not in NOT_JSON)
# Higher than any number of an update that is only large, and lower than one that cannot be.
FIRST_UPDATE = 2**40


@dataclass(frozen=True)
class Told:
    """A message as JSON; `is_none` if nobody can take it for one."""

    name: str
    document: bytes
    is_none: bool


def telegram_updates(number: int, seed: int) -> list[Told]:
    """So many spoilt updates, chosen by a seed, each with numbers of its own."""
    rich = telegram_update(
        Said(1, text="Hello."),
        text="Hello.",
        message_thread_id=5,
        is_topic_message=True,
        reply_to_message={"message_id": 2},
        sender_chat={"id": -100, "title": "Group"},
    )
    voiced = telegram_update(Said(1), voice={"file_id": "f", "duration": 3, "mime_type": "audio/ogg"}, caption="Hello.")
    shown = telegram_update(Said(1), photo=[{"file_id": "p", "width": 9, "height": 9}], caption="Hello.")
    told = [("update", example, place) for example in (rich, voiced, shown) for place in places_in(example)]
    return _spoilt(told, number, seed, _number_update)


def discord_messages(number: int, seed: int) -> list[Told]:
    """So many spoilt messages, channels and guilds, chosen by a seed."""
    message: dict[str, Any] = {
        "id": "",
        "channel_id": CHANNEL,
        "guild_id": GUILD,
        "type": 0,
        "content": "Hello.",
        "author": {"id": "600000000000000001", "username": "ann", "global_name": "Ann", "bot": False},
        "member": {"roles": [], "nick": "Ann"},
        "attachments": [{"id": "1", "url": "https://example.com/a", "size": 3, "filename": "a", "duration_secs": 1.5}],
        "message_reference": {"message_id": "5"},
        "flags": 8192,
        "sticker_items": [{"name": "wave"}],
    }
    # Not the channel that the good messages come in: it could be told to be gone.
    other = {"id": "800000000000000077", "type": 11, "guild_id": GUILD, "parent_id": CHANNEL, "name": "side"}
    guild = {"id": "800000000000000078", "channels": [other], "threads": [{**other, "last_message_id": "1"}]}
    told = [("MESSAGE_CREATE", message, place) for place in places_in(message)]
    for name in ("CHANNEL_UPDATE", "THREAD_DELETE", "CHANNEL_DELETE"):
        told += [(name, other, place) for place in places_in(other)]
    told += [("GUILD_CREATE", guild, place) for place in places_in(guild)]
    return _spoilt(told, number, seed, _number_message)


def _spoilt(told: Sequence[tuple[str, Any, Any]], number: int, seed: int, numbered: Any) -> list[Told]:
    dice = random.Random(seed)
    every = [(*each, value) for each in told for value in _READABLE]
    chosen = dice.sample(every, k=min(number, len(every)))
    return [
        Told(
            name,
            json.dumps(spoilt_at(numbered(example, index), place)).encode().replace(f'"{HERE}"'.encode(), value),
            _is_none(name, place, json.loads(value)),
        )
        for index, (name, example, place, value) in enumerate(chosen, 1)
    ]


def _number_update(update: Any, index: int) -> Any:
    return {**update, "update_id": FIRST_UPDATE + index, "message": {**update["message"], "message_id": 1000 + index}}


def _number_message(payload: Any, index: int) -> Any:
    return {**payload, "id": str(FIRST_MESSAGE + (index << 22))} if "channel_id" in payload else payload


def _is_none(name: str, place: tuple[str | int, ...], value: Any) -> bool:
    """What stands where an id or the text has to be, and is none."""
    whole = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if name == "update":
        if place in (("update_id",), ("message", "message_id"), ("message", "chat", "id")):
            return not whole
        return place in (("message",), ("message", "chat")) and not isinstance(value, dict)
    if name == "MESSAGE_CREATE" and place in (("id",), ("channel_id",)):
        return not (isinstance(value, str) and value.isascii() and value.isdigit())
    return name != "MESSAGE_CREATE"


def telegram_answers() -> Iterator[tuple[int, bytes]]:
    """Whole answers that are none."""
    for body in (*BODIES_NOT_JSON, *BODIES_OF_ANOTHER_SHAPE):
        yield 200, body
    for value in (*NOT_JSON, *_READABLE[:20]):
        yield 200, b'{"ok":true,"result":' + value + b"}"
        yield 200, b'{"ok":true,"result":[{"update_id":1,"message":' + value + b"}]}"
    for status in (200, 204, 301, 400, 404, 413, 418, 500, 599):
        yield status, CANARY.encode()


FRAMES: tuple[bytes, ...] = (
    *BODIES_NOT_JSON,
    *(body for body in BODIES_OF_ANOTHER_SHAPE if len(body) < 1000),
    b"{}",
    b'{"op":null}',
    b'{"op":"0"}',
    b'{"op":0}',
    b'{"op":0,"t":null,"s":null,"d":null}',
    b'{"op":0,"t":5,"s":1,"d":{}}',
    b'{"op":0,"t":"READY","s":1,"d":{}}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":["' + CANARY.encode() + b'"]}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":null}',
    b'{"op":0,"t":"GUILD_CREATE","s":1,"d":[]}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":"' + CANARY.encode() + b'\xff"}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":{"id":' + b"9" * 5000 + b"}}",
)
# After these the connection stays as it is.
PASSED_OVER: tuple[bytes, ...] = (
    b'{"op":99,"d":"' + CANARY.encode() + b'"}',
    b'{"op":-1}',
    b'{"op":10}',
    b'{"op":18446744073709551616}',
    b'{"op":11,"d":{"a":[[[[]]]]}}',
    b'{"op":1,"d":"' + CANARY.encode() + b'"}',
    b'{"op":0,"t":"NOTHING_WE_KNOW","s":1,"d":{"content":"' + CANARY.encode() + b'"}}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":"' + CANARY.encode() + b'"}',
    b'{"op":0,"t":"GUILD_CREATE","s":1,"d":{"name":"' + CANARY.encode() + b'"}}',
    b'{"op":0,"t":"CHANNEL_DELETE","s":1,"d":{"id":"since"}}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":{"id":"1","guild_id":"5","channel_id":"../users/@me","content":"x"}}',
    b'{"op":0,"t":"MESSAGE_CREATE","s":1,"d":{"content":' + b"[" * 500 + f'"{CANARY}"'.encode() + b"]" * 500 + b"}}",
)
