"""Pillarbox: durable two-way messaging for Python."""

# Every process of ours begins here, a hook's too, so this imports nothing: not even `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pillarbox.box import Pillarbox
    from pillarbox.errors import PermanentError
    from pillarbox.outbound.messages import Email, Push, Sms, Webhook

__version__ = "0.1.0"
__all__ = ["Email", "PermanentError", "Pillarbox", "Push", "Sms", "Webhook", "__version__"]

_HOMES = {
    "Email": "pillarbox.outbound.messages",
    "PermanentError": "pillarbox.errors",
    "Pillarbox": "pillarbox.box",
    "Push": "pillarbox.outbound.messages",
    "Sms": "pillarbox.outbound.messages",
    "Webhook": "pillarbox.outbound.messages",
}


def __getattr__(name: str) -> "Any":
    """Import public names when they are first used: a short-lived process should start in milliseconds."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pillarbox' has no attribute {name!r}")
