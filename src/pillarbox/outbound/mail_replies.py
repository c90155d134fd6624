"""What a mail server's replies mean: the enhanced code decides where there is one (RFC 3463), else the reply code (RFC 5321)."""

from __future__ import annotations

import re

from pillarbox.outbound.provider import Judgement, Verdict

GREYLISTED_SECONDS = 300.0

_ENHANCED = re.compile(r"([45])\.([0-9]{1,3}\.[0-9]{1,3})(?![0-9.])")
_JUDGEMENTS: dict[str, Judgement] = {"4": "transient", "5": "rejected"}

# Subject and detail of an enhanced code; its class says whether to try again.
DETAILS = {
    "1.0": "the address was refused",
    "1.1": "no such mailbox",
    "1.2": "no such mail domain",
    "1.3": "the recipient's address is malformed",
    "1.4": "the recipient's address is ambiguous",
    "1.6": "the mailbox has moved",
    "1.7": "the sender's address is malformed",
    "1.8": "the sender's domain was not accepted",
    "1.9": "the message was passed on to a server that does not understand it",
    "1.10": "the recipient's domain takes no mail",
    "2.0": "the mailbox has a problem",
    "2.1": "the mailbox is disabled",
    "2.2": "the mailbox is full",
    "2.3": "the message is too large for the mailbox",
    "2.4": "the mailing list could not be expanded",
    "3.0": "the mail system has a problem",
    "3.1": "the mail system is full",
    "3.2": "the mail system takes no messages now",
    "3.3": "the mail system lacks a feature the message needs",
    "3.4": "the message is too large",
    "3.5": "the mail system is not set up rightly",
    "4.0": "the network or the routing has a problem",
    "4.1": "the recipient's host did not answer",
    "4.2": "the connection to the recipient's host broke",
    "4.3": "a directory server did not answer",
    "4.4": "the message could not be routed",
    "4.5": "the mail system is congested",
    "4.6": "a routing loop was found",
    "4.7": "the delivery took too long",
    "5.0": "the protocol was not followed",
    "5.1": "the command was not valid",
    "5.2": "a command's syntax was not understood",
    "5.3": "too many recipients",
    "5.4": "a command's arguments were not valid",
    "6.0": "the content was refused",
    "6.1": "the kind of content is not supported",
    "6.7": "addresses beyond ASCII are not permitted",
    "7.0": "refused for security or policy",
    "7.1": "the delivery is not permitted by policy",
    "7.2": "the mailing list does not take mail from this sender",
    "7.8": "the user name or password was not accepted",
    "7.9": "the way of authenticating is too weak",
    "7.10": "encryption is needed",
    "7.20": "no DKIM signature passed",
    "7.23": "the sender's domain does not permit this server (SPF)",
    "7.25": "the server's address has no valid reverse name",
    "7.26": "the message passed no check of its sender",
    "7.27": "the sender's domain takes no mail",
    "7.28": "too many messages of this kind",
}
CODES = {
    421: "the service is not available",
    432: "the password must be changed first",
    450: "the mailbox is not available now",
    451: "an error in the mail server",
    452: "the mail server has too little room",
    454: "authentication is not available now",
    455: "the mail server cannot take these parameters now",
    500: "the command was not understood",
    501: "a command's arguments were not understood",
    502: "the command is not supported",
    503: "the command came out of order",
    504: "a command's argument is not supported",
    521: "the host takes no mail",
    530: "authentication is needed",
    534: "the way of authenticating is too weak",
    535: "the user name or password was not accepted",
    538: "encryption is needed to authenticate",
    550: "the mailbox is not available",
    551: "the recipient is not here",
    552: "the message is too large or the mailbox is full",
    553: "the mailbox's name is not allowed",
    554: "the transaction failed",
    555: "the parameters were not recognised",
    556: "the domain takes no mail",
}
# How common servers name the message they have taken: Postfix, Exim, Sendmail, Amazon SES.
_QUEUE_IDS = [
    re.compile(r"\bqueued as ([0-9A-Za-z._-]{4,100})$"),
    re.compile(r"^OK id=([0-9A-Za-z._-]{4,100})$"),
    re.compile(r"^(?:2\.0\.0 )?([0-9A-Za-z._-]{4,100}) Message accepted for delivery$"),
    re.compile(r"^Ok ([0-9a-f-]{40,100})$"),
]


def refusal(code: int, text: str, *, otherwise: Judgement) -> Verdict:
    """The verdict on a reply that is no success; `otherwise` is for one that is no answer at all."""
    enhanced = _ENHANCED.match(text) if 400 <= code < 600 else None
    judgement = _JUDGEMENTS.get((enhanced[1] if enhanced else str(code))[:1])
    if judgement is None or not 400 <= code < 600:
        return Verdict(judgement=otherwise, error="The mail server's answer was not one that SMTP knows.")
    told = f"The server answered {code}"
    meaning = CODES.get(code)
    if enhanced:
        told += f" {enhanced[0]}"
        meaning = DETAILS.get(enhanced[2], meaning)
    greylisted = judgement == "transient" and enhanced is not None and enhanced[2].startswith("7.")
    return Verdict(
        judgement=judgement,
        error=f"{told}: {meaning}." if meaning else f"{told}.",
        status_code=code,
        retry_after=GREYLISTED_SECONDS if greylisted else None,
    )


def queue_id(text: str) -> str | None:
    """The id under which a server took a message, where its answer is of a known form."""
    return next((found[1] for form in _QUEUE_IDS if (found := form.search(text))), None)
