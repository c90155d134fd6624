"""What a command says and exits with when it did not do what it was asked."""

from __future__ import annotations

from pillarbox.errors import InvalidInput, NotFound, PillarboxError, Refused, SettingsError

FAILED, WRONG_USAGE, NOT_FOUND, REFUSED, INTERRUPTED = 1, 2, 3, 4, 130
_CODES = {400: WRONG_USAGE, 422: WRONG_USAGE, 404: NOT_FOUND, 409: REFUSED}


class Failure(Exception):
    """One sentence for stderr, and the exit code."""

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        super().__init__(sentence)
        self.code = code


def code_of(error: PillarboxError) -> int:
    """What to exit with after one of our own errors."""
    match error:
        case InvalidInput() | SettingsError():
            return WRONG_USAGE
        case NotFound():
            return NOT_FOUND
        case Refused():
            return REFUSED
        case _:
            return FAILED


def failure_of_status(status: int, detail: str) -> Failure:
    """The failure that a problem over HTTP would be."""
    return Failure(detail, _CODES.get(status, FAILED))
