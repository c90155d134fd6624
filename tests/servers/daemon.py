"""`pillarbox serve`, or another command that stays, as a real process: started, watched, signalled, killed."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import apsw

ADMIN_KEY = "an-admin-key-of-the-tests"
SECONDS = 30.0
SECRETS_KEY = base64.b64encode(b"a key of 32 bytes for the tests.").decode()


class Lines:
    """What a stream has said so far, gathered by a thread."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._said: list[str] = []
        self._ended = False
        self._changed = threading.Condition()
        threading.Thread(target=self._gather, args=[stream], daemon=True).start()

    @property
    def text(self) -> str:
        with self._changed:
            return "".join(self._said)

    def expect(self, pattern: str, seconds: float = SECONDS) -> re.Match[str]:
        """Wait until a line matches; fails with everything said when the stream ends or time is up."""
        deadline = time.monotonic() + seconds
        seen = 0
        with self._changed:
            while True:
                for line in self._said[seen:]:
                    if found := re.search(pattern, line.rstrip("\n")):
                        return found
                seen = len(self._said)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise AssertionError(f"no line matches {pattern!r} in:\n{''.join(self._said)}")
                self._changed.wait(left)

    def whole(self, seconds: float = SECONDS) -> str:
        """Everything that was said, once the stream has ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, seconds), f"still open:\n{''.join(self._said)}"
            return "".join(self._said)

    def _gather(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._add([line.decode(errors="replace")], ended=False)
        stream.close()
        self._add([], ended=True)

    def _add(self, lines: list[str], *, ended: bool) -> None:
        with self._changed:
            self._said += lines
            self._ended = ended
            self._changed.notify_all()


class Daemon:
    """One process of ours; as a context it is started, and killed at the end if it still runs.

    `settings` are given as `{"inbound.lease_seconds": 2}`. `out` and `logs` are what it says on stdout and stderr.
    """

    def __init__(
        self,
        database: str | None,
        *arguments: str,
        command: str = "serve",
        settings: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        admin_key: str | None = ADMIN_KEY,
        ready: str | None = r"^listening on (?P<url>http://\S+)$",
        prefix: Sequence[str] = (),
    ) -> None:
        port = ("--port", "0") if command == "serve" and "--port" not in arguments else ()
        named = () if database is None else ("--database", database)
        program = [sys.executable, "-m", "pillarbox"]
        self._command = [*prefix, *program, command, *named, *port, *arguments]
        self._environ = environment(settings or {}, environ or {})
        if admin_key is not None:
            self._environ.setdefault("PILLARBOX_ADMIN_KEY", admin_key)
        for name, value in key_for(database).items():
            self._environ.setdefault(name, value)
        self._ready = ready
        self._file = None if database is None or not database.startswith("sqlite") else database.split("///", 1)[1]
        self.admin_key = self._environ.get("PILLARBOX_ADMIN_KEY")
        self.base_url = ""

    def start(self) -> Self:
        """Start it, also again after an end, and wait until it is ready."""
        self.process = subprocess.Popen(
            self._command, env=self._environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout
        assert self.process.stderr
        self.out, self.logs = Lines(self.process.stdout), Lines(self.process.stderr)
        if self._ready is not None:
            try:
                found = self.out.expect(self._ready)
            except AssertionError as error:
                self.kill()
                raise AssertionError(f"{error}\nand on stderr:\n{self.logs.whole()}") from None
            self.base_url = found.groupdict().get("url", "")
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, seconds: float = SECONDS) -> int:
        """The exit code, once it has ended; minus a signal's number when that ended it."""
        return self.process.wait(seconds)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def terminate(self, seconds: float = SECONDS) -> int:
        """SIGTERM, and the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """SIGKILL, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)

    def pause(self) -> None:
        """SIGSTOP: it is alive and does nothing; but not while it has an SQLite file's lock, which nobody could take away."""
        while True:
            self.send(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
            if self._lets_others_write():
                return
            self.resume()
            self._lets_others_write()

    def _lets_others_write(self) -> bool:
        if self._file is None:
            return True
        connection = apsw.Connection(self._file)
        try:
            connection.set_busy_timeout(500)
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return False
        finally:
            connection.close()
        return True

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def call(self, method: str, path: str, body: object = None, *, seconds: float = SECONDS) -> tuple[int, Any]:
        """One request with the admin key: status and JSON; a refused connection raises."""
        headers = {"Authorization": f"Bearer {self.admin_key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.base_url + path, data, headers, method=method)  # noqa: S310 - our own server
        try:
            with urlopen(request, timeout=seconds) as answer:  # noqa: S310
                return answer.status, _json(answer.read())
        except HTTPError as error:
            with error:
                return error.code, _json(error.read())

    def until(
        self, path: str, holds: Callable[[Any], bool] = lambda _: True, *, status: int = 200, seconds: float = SECONDS
    ) -> Any:
        """Ask again and again until status and answer are right; the answer."""
        deadline, waiting = time.monotonic() + seconds, threading.Event()
        while True:
            got, answer = self.call("GET", path)
            if got == status and holds(answer):
                return answer
            assert time.monotonic() < deadline, f"{path} still answers {got} {answer}\n{self.logs.text}"
            waiting.wait(0.02)


def key_for(database: str | None) -> dict[str, str]:
    """The variable that every process on PostgreSQL needs; SQLite has a key file of its own."""
    return {"PILLARBOX_SECRETS__KEY": SECRETS_KEY} if (database or "").startswith("postgres") else {}


def environment(settings: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, with no settings but these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PILLARBOX_")}
    variables = {f"PILLARBOX_{name.upper().replace('.', '__')}": _text(value) for name, value in settings.items()}
    return kept | variables | dict(environ)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")
