"""Pillarbox: durable two-way messaging for Python."""

# Every process of ours begins here, a hook's too, so this imports nothing: not even `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pillarbox.box import Pillarbox

__version__ = "0.1.0"
__all__ = ["Pillarbox", "__version__"]

_HOMES = {"Pillarbox": "pillarbox.box"}


def __getattr__(name: str) -> "Any":
    """Import public names when they are first used: a short-lived process should start in milliseconds."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pillarbox' has no attribute {name!r}")
