"""What went wrong, as RFC 9457 tells it: never a secret, never a body."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from pillarbox.api.answers import Answer, encode
from pillarbox.errors import (
    DatabaseFull,
    IdempotencyMismatch,
    InvalidInput,
    NotFound,
    OptedOut,
    PillarboxError,
    Refused,
    Unavailable,
)
from pillarbox.text import printable

NO_SUCH_PATH = "There is nothing at this path for this key; /docs lists what there is."
TYPE = "urn:pillarbox:problem:"
MEDIA_TYPE = b"application/problem+json"
RETRY_AFTER = (b"retry-after", b"1")
CLOSE = (b"connection", b"close")


class FieldError(msgspec.Struct, frozen=True):
    """One field at fault, by its dotted path; an empty path is the whole body."""

    field: str
    detail: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refused request; `type` is stable and names the reason, `message_id` the canceled record of an opted-out message."""

    type: str
    title: str
    status: int
    detail: str
    errors: Sequence[FieldError] = ()
    message_id: str | None = None


class Problem(Exception):
    """Ends a request with that answer."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        message_id: str | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.errors = errors
        self.message_id = message_id
        self.headers = tuple(headers)

    def answer(self) -> Answer:
        details = ProblemDetails(
            type=TYPE + self.reason,
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            errors=self.errors,
            message_id=self.message_id,
        )
        return Answer(self.status, encode(details), MEDIA_TYPE, self.headers)


def unauthorized() -> Problem:
    return Problem(
        401,
        "unauthorized",
        "Send `Authorization: Bearer KEY` with a key that is known, not expired and not revoked.",
        headers=[(b"www-authenticate", b"Bearer")],
    )


def no_such_path() -> Problem:
    return Problem(404, "not-found", NO_SUCH_PATH)


def for_admins() -> Problem:
    return Problem(403, "for-admins", "Only an admin key may do this; a tenant's key may not change the tenant.")


def wrong_method(allowed: bytes) -> Problem:
    return Problem(405, "method-not-allowed", f"Use {allowed.decode()}.", headers=[(b"allow", allowed)])


def invalid(field: str, detail: str, *, reason: str = "invalid") -> Problem:
    detail = detail[:1].upper() + detail[1:]
    return Problem(422, reason, f"{field or 'The body'}: {detail}", errors=[FieldError(field, detail)])


def given_up() -> Problem:
    """Of a request that was not done when the server had to end; it may have taken effect, as where an answer is lost."""
    return Problem(503, "unavailable", "The server is being stopped; try again.", headers=[RETRY_AFTER])


def problem_of(error: PillarboxError) -> Problem:
    """The problem that one of our own errors is over HTTP."""
    match error:
        case IdempotencyMismatch():
            return invalid(_field(error), error.detail, reason="idempotency-mismatch")
        case InvalidInput():
            # msgspec quotes a word that it does not know, and whoever passes its text on quotes it too.
            quotes = error.detail.startswith("Invalid enum value")
            return invalid(_field(error), "Is not one of the words allowed." if quotes else error.detail)
        case NotFound():
            return Problem(404, "not-found", str(error))
        case OptedOut():
            return Problem(409, error.reason, str(error), message_id=error.message_id)
        case Refused():
            return Problem(409, error.reason, str(error))
        case DatabaseFull():
            return Problem(503, "database-full", str(error), headers=[RETRY_AFTER])
        case Unavailable():
            return Problem(503, "unavailable", str(error), headers=[RETRY_AFTER])
        case _:
            return internal()


def _field(error: InvalidInput) -> str:
    """Its name over HTTP, where the key is a header."""
    return "Idempotency-Key" if error.field == "idempotency_key" else printable(error.field, 200)


def internal() -> Problem:
    return Problem(500, "internal", "Something went wrong here; the log of the server names it.")
