"""Who stands in the table: on which store, and what each promises of a job whose worker dies."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

_REPEATED = "at least once; the job of a dead worker is tried again"


@dataclass(frozen=True, slots=True)
class Row:
    """One queue on one store; `package` is what must be installed for it, nothing for ours, which have a pipe.

    The drain and the idle latency of those that take turns are measured several times, one after the other and then again.
    """

    name: str
    store: str
    module: str
    promise: str
    package: str = ""
    takes_turns: bool = False
    pipe: str = ""

    @property
    def key(self) -> str:
        return f"{self.name} on {self.store}"

    @property
    def file(self) -> Path:
        return Path(__file__).parents[1] / f"{self.module.replace('.', '/')}.py"

    def at_once(self) -> str:
        """How many jobs its worker has under way at once, fetches where it fetches more, and has of each where these are runs.

        It is read, for it may not be installed.
        """
        found = {}
        for statement in ast.parse(self.file.read_text()).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                    found[name] = value
        fetched = f" of {found['FETCHED']}" if "FETCHED" in found else ""
        each = f" by {found['OF_EACH']}" if "OF_EACH" in found else ""
        return f"{found['AT_ONCE']}{fetched}{each}"


def _ours(store: str) -> tuple[Row, ...]:
    promises = {
        "outbound": f"{_REPEATED} by itself; history and attempts kept",
        "inbound": f"{_REPEATED} by itself; exact order in each session",
        "hooks": f"{_REPEATED} by itself; exact order in each session",
    }
    return tuple(
        Row(f"Pillarbox {pipe}", store, f"bench.ours.{pipe}", promise, takes_turns=True, pipe=pipe)
        for pipe, promise in promises.items()
    )


def _peer(name: str, store: str, promise: str, *, takes_turns: bool = False) -> Row:
    package = name.lower()
    return Row(name, store, f"bench.peers.{package}", promise, package, takes_turns)


ROWS = (
    *_ours("postgres"),
    _peer("PgQueuer", "postgres", f"{_REPEATED} once its heartbeat is too old", takes_turns=True),
    _peer("Procrastinate", "postgres", "at least once if you write the task that finds stalled jobs", takes_turns=True),
    _peer("Oban", "postgres", f"{_REPEATED} by its lifeline", takes_turns=True),
    _peer("SAQ", "postgres", f"{_REPEATED} by its sweep", takes_turns=True),
    *_ours("sqlite"),
    _peer("Huey", "sqlite", "at most once: a job is taken out before it is run", takes_turns=True),
    _peer("SAQ", "redis", f"{_REPEATED} by its sweep", takes_turns=True),
    _peer("arq", "redis", f"{_REPEATED} when its time is over"),
    _peer("Celery", "redis", f"{_REPEATED} after the visibility timeout of an hour (acks_late)"),
    _peer("Dramatiq", "redis", f"{_REPEATED} when its process is missed"),
    _peer("RQ", "redis", "the job of a dead worker ends up among the failed ones"),
    _peer("FastStream", "nats", f"{_REPEATED} after 30 seconds (JetStream)", takes_turns=True),
)
