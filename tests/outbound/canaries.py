"""What is planted in messages, secrets and answers, and how to find it again."""

import json
import re
from base64 import b64encode
from typing import Any

from tests.servers.provider_servers import ACCOUNT_SID, Answer, Call

NUMBER = "+15005550171"
BODY = "canary-body"
# What a provider says without having been told it.
ANSWER = "not-today-sorry"
HEADER = "canary-header-value"
SECRETS = {
    "E2E_SENDGRID_KEY": "SG.canary-key-of-sendgrid",
    "E2E_TWILIO_SID": ACCOUNT_SID,
    "E2E_TWILIO_TOKEN": "canary-token-of-twilio",
    "E2E_SIGNING_SECRET": "whsec_" + b64encode(b"canary-signing-secret-of-tests!!").decode(),
}
# Everything planted has this word in it, or is this number, or is the signing secret in one of its forms.
LEAK = re.compile(
    rf"(?i)canary|{ANSWER}|{NUMBER[2:]}|{SECRETS['E2E_SIGNING_SECRET'][6:20]}|{b64encode(BODY.encode()).decode()[:-4]}"
)
# What a provider says of its own accord is shown to operators, and the path of a webhook is; none of this ever is.
IN_EXCERPTS = re.compile(
    "|".join(
        map(
            re.escape,
            [*SECRETS.values(), NUMBER[2:], BODY, HEADER, "canary-subject", "canary-query", "canary-attachment"],
        )
    )
    + rf"|(?i:canary\.\w+(?:@|%40|\\u0040))|{SECRETS['E2E_SIGNING_SECRET'][6:20]}|{b64encode(BODY.encode()).decode()[:-4]}"
)
ENDINGS = ("taken", "refused", "busy", "silent", "reset", "moved")


def ending_in(call: Call) -> str:
    return next((word for word in ENDINGS if word in call.label or word.encode() in call.body), "taken")


def told(ending: str) -> Answer | None:
    """An answer that quotes what it should not."""
    said = json.dumps({"message": ANSWER, "code": 21211, "errors": [{"message": f"canary {NUMBER}"}]}).encode()
    headers = {"X-Echo": "canary-answer-header", "Location": "https://canary.example/"}
    match ending:
        case "refused":
            return Answer(400, headers, said)
        case "busy":
            return Answer(503, headers, said)
        case "moved":
            return Answer(302, headers, said)
        case "silent":
            return Answer(way="hang")
        case "reset":
            return Answer(way="reset")
        case _:
            return None


def messages(ending: str, origin: str) -> list[dict[str, Any]]:
    """One for each channel, with a canary in every field that takes one."""
    attachment = {"filename": "a.txt", "content": b64encode(b"canary-attachment").decode()}
    return [
        {
            "channel": "email",
            "to": f"canary.{ending}@example.com",
            "cc": ["canary.cc@example.com"],
            "bcc": ["canary.bcc@example.com"],
            "reply_to": "Canary <canary.reply@example.com>",
            "subject": "canary-subject",
            "text": BODY,
            "html": f"<p>{BODY}</p>",
            "headers": {"X-Own": HEADER},
            "attachments": [attachment],
            "category": "marketing",
        },
        {"channel": "sms", "to": NUMBER, "text": f"{BODY} {ending}"},
        {
            "channel": "webhook",
            "to": f"{origin}/{ending}/canary-path?token=canary-query",
            "body": {"secret": BODY},
            "headers": {"Authorization": f"Bearer {HEADER}", "X-Own": HEADER},
        },
    ]


def leaks(text: object, pattern: re.Pattern[str] = LEAK) -> list[str]:
    """The surroundings of every canary in a text."""
    said = text if isinstance(text, str) else json.dumps(text)
    return [said[max(0, found.start() - 60) : found.end() + 20] for found in pattern.finditer(said)]
