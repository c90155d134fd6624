"""Being told to end: whatever was begun is tidied up first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is inside as Ctrl-C does, and then the program with the status of the signal.

    A second SIGTERM does not wait for that; a terminal that closes may well say SIGHUP twice.
    """
    told: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        told.append(number)
        if told.count(signal.SIGTERM) > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if len(told) > 1:
            return
        # An event loop takes it from there; in a script's background nobody heeds it.
        signal.raise_signal(signal.SIGINT)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt

    # Under nohup SIGHUP is ignored, and stays so.
    before = {each: signal.signal(each, end) for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN}
    try:
        yield
    except KeyboardInterrupt:
        if told:
            raise SystemExit(128 + told[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
