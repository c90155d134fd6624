"""API keys: who may call, and for which tenant."""

from pillarbox.keys.model import Key, NewKey
from pillarbox.keys.registry import Keys

__all__ = ["Key", "Keys", "NewKey"]
