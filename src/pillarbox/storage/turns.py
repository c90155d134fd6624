"""One at a time on each connection: savepoints nest, so two steps on one connection must not overlap."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

L = TypeVar("L")


class Turns(Generic[L]):
    """A lock for each connection, as long as that lives."""

    def __init__(self, make: Callable[[], L]) -> None:
        self._make = make
        self._locks: WeakKeyDictionary[Any, L] = WeakKeyDictionary()
        self._guard = threading.Lock()

    def on(self, connection: Any) -> L:
        with self._guard:
            lock = self._locks.get(connection)
            if lock is None:
                lock = self._locks[connection] = self._make()
            return lock
