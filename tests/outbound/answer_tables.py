"""The answers of each provider, and how a first attempt must end on them."""

import json
import time
from dataclasses import dataclass
from email.utils import formatdate

from tests.servers.provider_servers import Answer, twilio_error

COMPUTED = 60
CANARY = "canary-of-the-answer"
SPOKEN = json.dumps({"errors": [{"message": CANARY, "field": CANARY}], "message": CANARY}).encode()
FIVE_MB = b"x" * (5 * 1024 * 1024)


@dataclass(frozen=True)
class Ending:
    """How a message stands after its first attempt; `wait` is what the next one is put off by, in seconds."""

    status: str
    outcome: str
    code: int | None = None
    wait: float | None = None


def delivered(code: int = 200) -> Ending:
    return Ending("delivered", "accepted", code)


def sent(code: int) -> Ending:
    return Ending("sent", "accepted", code)


def rejected(code: int | None) -> Ending:
    return Ending("failed", "rejected", code)


def transient(code: int | None = None, wait: float = COMPUTED) -> Ending:
    return Ending("retrying", "transient", code, wait)


UNKNOWN = Ending("retrying", "unknown", None, COMPUTED)


def spoken(status: int, **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, SPOKEN)


SENDGRID = {
    "accepted": (Answer(202, {"X-Message-Id": "14c5d75ce93.dfd.64b469"}), sent(202)),
    "accepted without an id": (Answer(200), sent(200)),
    "accepted with a strange id": (Answer(202, {"X-Message-Id": "two words"}), sent(202)),
    **{
        f"HTTP {status}": (spoken(status), rejected(status))
        for status in (400, 401, 403, 404, 405, 406, 413, 415, 451, 418)
    },
    **{f"HTTP {status}": (spoken(status), transient(status)) for status in (408, 425, 429, 500, 502, 503, 504, 599)},
    **{f"HTTP {status}": (spoken(status, Location="/"), rejected(status)) for status in (300, 301, 302, 303, 307, 308)},
    "a gateway's page": (Answer(502, {}, b"<html>" + CANARY.encode()), transient(502)),
    "throttled": (spoken(429, Retry_After="120"), transient(429, 120)),
    "unavailable for a while": (spoken(503, Retry_After="90"), transient(503, 90)),
    "5 MB of acceptance": (Answer(202, {}, FIVE_MB), sent(202)),
}

CODES = {
    **{code: rejected(400) for code in (21211, 21408, 21606, 21608, 21612, 21614, 21635)},
    **{code: rejected(400) for code in (20003, 30002, 30004, 30005, 30006, 30007, 30034, 63003, 63016, 63024)},
    **{code: transient(400) for code in (20429, 21611, 30001, 30003, 30008, 14107, 63017, 63018)},
}
TWILIO = {
    "accepted": (Answer(201, {}, b'{"sid":"SM00000000000000000000000000000000","status":"queued"}'), sent(201)),
    "accepted without a word": (Answer(201), sent(201)),
    "accepted in half a word": (Answer(201, {}, b'{"sid":"SM0000'), sent(201)),
    "accepted with a strange id": (Answer(201, {}, b'{"sid":{"x":[]}}'), sent(201)),
    **{f"code {code}": (twilio_error(400, code, CANARY), ending) for code, ending in CODES.items()},
    "a new code follows its status": (twilio_error(400, 21999, CANARY), rejected(400)),
    "a new code of a server error": (twilio_error(500, 20500, CANARY), transient(500)),
    "a permanent code goes before its status": (twilio_error(503, 21211, CANARY), rejected(503)),
    "a transient code goes before its status": (twilio_error(400, 20429, CANARY), transient(400)),
    "throttled for a while": (twilio_error(429, 20429, CANARY, **{"Retry-After": "75"}), transient(429, 75)),
    "no body": (Answer(401), rejected(401)),
    "no JSON": (Answer(400, {}, b"\xff\xfe" + CANARY.encode()), rejected(400)),
    "a list": (Answer(400, {}, b"[1]"), rejected(400)),
    "JSON without end": (Answer(400, {}, b"[" * 50_000), rejected(400)),
    "a page": (Answer(502, {}, b"<html>"), transient(502)),
    "HTTP 500": (Answer(500), transient(500)),
    "a redirect": (Answer(307, {"Location": "/elsewhere"}), rejected(307)),
    "5 MB of refusal": (Answer(400, {}, FIVE_MB), rejected(400)),
}

WEBHOOK = {
    **{f"HTTP {status}": (Answer(status), delivered(status)) for status in (200, 201, 202, 204, 299)},
    **{f"HTTP {status}": (spoken(status), rejected(status)) for status in (400, 401, 403, 404, 409, 410, 413, 422)},
    **{f"HTTP {status}": (spoken(status), transient(status)) for status in (408, 425, 429, 500, 502, 503, 504, 599)},
    **{f"HTTP {status}": (Answer(status), rejected(status)) for status in (300, 301, 302, 303, 307, 308, 399)},
    "not modified": (Answer(raw=b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n"), rejected(304)),
    "5 MB of thanks": (Answer(200, {}, FIVE_MB), delivered()),
    "5 MB of trouble": (Answer(500, {}, FIVE_MB), transient(500)),
    "gzip that is none": (Answer(200, {"Content-Encoding": "gzip"}, b"no gzip"), delivered()),
    "a body that breaks off": (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhal"), delivered()),
    "a chunk that breaks off": (
        Answer(raw=b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhal"),
        transient(503),
    ),
    "no HTTP at all": (Answer(raw=b"220 mail.example ESMTP\r\n\r\n" + CANARY.encode()), UNKNOWN),
    "half an answer": (Answer(raw=b"HTTP/1.1 20"), UNKNOWN),
    "a header block without end": (Answer(raw=b"HTTP/1.1 200 OK\r\n" + b"X-A: aaaa\r\n" * 100_000), UNKNOWN),
    "reset after the request": (Answer(way="reset"), UNKNOWN),
    "hung up after the request": (Answer(way="hang up"), UNKNOWN),
}


def throttled(value: str, status: int = 429, **headers: str) -> Answer:
    return Answer(status, {"Retry-After": value, **headers})


def at_date(seconds: float) -> Answer:
    """Throttled until a date, by the server's own clock, which is an hour slow."""
    now = time.time() - 3600
    return throttled(formatdate(now + seconds, usegmt=True), Date=formatdate(now, usegmt=True))


RETRY_AFTER = {
    "seconds": (throttled("120"), transient(429, 120)),
    "seconds when unavailable": (throttled("300", 503), transient(503, 300)),
    "less than our own wait": (throttled("5"), transient(429)),
    "nothing": (throttled("0"), transient(429)),
    "negative": (throttled("-120"), transient(429)),
    "a fraction": (throttled("120.5"), transient(429)),
    "a word": (throttled("soon"), transient(429)),
    "a number with a sign": (throttled("+120"), transient(429)),
    "other digits": (Answer(raw="HTTP/1.1 429 X\r\nRetry-After: ١٢٠\r\n\r\n".encode()), transient(429)),
    "blanks around": (throttled("  120  "), transient(429, 120)),
    "beyond the most": (throttled("99999999"), transient(429, 3600)),
    "far beyond numbers": (throttled("9" * 400), transient(429, 3600)),
    "a date": (at_date(240), transient(429, 240)),
    "a date that is over": (at_date(-240), transient(429)),
    "a date beyond the most": (at_date(86_400), transient(429, 3600)),
    "an old form of a date without one to compare": (throttled("Sunday, 06-Nov-94 08:49:37 GMT"), transient(429)),
    "a date that is none": (throttled("Thu, 99 Foo 2099 25:61:61 GMT"), transient(429)),
    "with a refusal": (throttled("120", 400), rejected(400)),
    "with thanks": (throttled("120", 200), delivered()),
}
