"""What a provider answered, as it can be recorded: it may be anybody's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, get_args

from pillarbox.errors import InvalidInput
from pillarbox.outbound.provider import Judgement, Verdict
from pillarbox.text import check_text

_LONGEST_ID = 200
_LARGEST_CODE = 2**31 - 1
_JUDGEMENTS = get_args(Judgement)
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Verdict)}


def sound(verdict: object) -> Verdict:
    """The verdict; its judgement stands whatever else is wrong with it, so that nothing is sent again for a mere remark."""
    if not isinstance(verdict, Verdict) or verdict.judgement not in _JUDGEMENTS:
        return Verdict(judgement="unknown", error="The provider answered something that is no verdict.")
    wrong = [name for name, fits in _RULES.items() if not fits(getattr(verdict, name))]
    if not wrong:
        return verdict
    said = f"The provider's verdict had no usable {', '.join(wrong)}."
    return replace(verdict, **{name: _DEFAULTS[name] for name in wrong} | {"error": said})


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_code(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= _LARGEST_CODE)


def _is_id(value: object) -> bool:
    if not isinstance(value, str):
        return value is None
    try:
        check_text("provider_msg_id", value, most=_LONGEST_ID)
    except InvalidInput:
        return False
    return True


_RULES: dict[str, Callable[[object], bool]] = {
    "error": _is_text,
    "status_code": _is_code,
    "provider_msg_id": _is_id,
    "delivered": _is_truth,
    "retry_after": _is_seconds,
    "opt_out": _is_truth,
    "last_chance": _is_truth,
    "request": _is_text,
    "response": _is_text,
}
