"""A command at a real terminal: what it shows is gathered, what is typed is sent key by key."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import pyte

from tests.servers.daemon import environment

SECONDS = 30.0
COLUMNS, LINES = 120, 40


class Terminal:
    """One process behind a pseudo-terminal, with a screen that is drawn as a terminal would."""

    def __init__(self, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self._command = [sys.executable, "-m", "pillarbox", *arguments]
        self._environ = environment({}, {"TERM": "xterm-256color", **(environ or {})})
        self._seen = bytearray()
        self._screen = pyte.HistoryScreen(COLUMNS, LINES, history=10_000, ratio=0.1)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.process = subprocess.Popen(
            self._command, env=self._environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        self._reader = threading.Thread(target=self._gather, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(SECONDS)
        os.close(self._theirs)
        self._reader.join(SECONDS)
        os.close(self._ours)

    @property
    def raw(self) -> bytes:
        with self._changed:
            return bytes(self._seen)

    @property
    def text(self) -> str:
        """What is on the screen and has gone off its top."""
        with self._changed:
            return self._text()

    def expect(self, text: str, *, times: int = 1) -> None:
        """Wait until the terminal has shown this."""
        with self._changed:
            shown = self._changed.wait_for(lambda: self._text().count(text) >= times, SECONDS)
        assert shown, f"{text!r} was not shown {times} times in:\n{self.text}"

    @property
    def waits_for_lines(self) -> bool:
        """Whether keys are kept back until Enter, and Ctrl-D means something to the terminal itself."""
        flags: int = termios.tcgetattr(self._theirs)[3]
        return bool(flags & termios.ICANON)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, *, columns: int, lines: int) -> None:
        """Another size, as when a window is made smaller; what was shown keeps its width here."""
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def leave(self) -> int:
        """The exit code, once it has ended; the terminal must be as it was."""
        code = self.process.wait(SECONDS)
        assert termios.tcgetattr(self._theirs) == self.before
        return code

    def _text(self) -> str:
        gone = ["".join(line[column].data for column in range(COLUMNS)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in (*gone, *self._screen.display))

    def _gather(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:
                return
            if not piece:
                return
            if b"\x1b[6n" in piece:
                # Where is the cursor, the program asks; a terminal answers.
                os.write(self._ours, b"\x1b[1;1R")
            with self._changed:
                self._seen += piece
                self._stream.feed(piece)
                self._changed.notify_all()
