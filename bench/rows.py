"""Who stands in the table: on which store, and what each promises of a job whose worker dies."""

from __future__ import annotations

from dataclasses import dataclass

_REPEATED = "at least once; the job of a dead worker is tried again"


@dataclass(frozen=True, slots=True)
class Row:
    """One queue on one store; `package` is what must be installed for it, nothing for ours."""

    name: str
    store: str
    module: str
    promise: str
    package: str = ""

    @property
    def key(self) -> str:
        return f"{self.name} on {self.store}"


def _ours(store: str) -> tuple[Row, ...]:
    return (
        Row("Pillarbox outbound", store, "bench.ours.outbound", f"{_REPEATED} by itself; history and attempts kept"),
        Row("Pillarbox inbound", store, "bench.ours.inbound", f"{_REPEATED} by itself; exact order in each session"),
        Row("Pillarbox hooks", store, "bench.ours.hooks", f"{_REPEATED} by itself; exact order in each session"),
    )


def _peer(name: str, store: str, promise: str, package: str = "") -> Row:
    package = package or name.lower()
    return Row(name, store, f"bench.peers.{package}", promise, package)


ROWS = (
    *_ours("postgres"),
    _peer("PgQueuer", "postgres", f"{_REPEATED} once its heartbeat is too old"),
    _peer("Procrastinate", "postgres", "at least once if you write the task that finds stalled jobs"),
    _peer("Oban", "postgres", f"{_REPEATED} by its lifeline"),
    _peer("SAQ", "postgres", f"{_REPEATED} by its sweep"),
    *_ours("sqlite"),
    _peer("Huey", "sqlite", "at most once: a job is taken out before it is run"),
    _peer("SAQ", "redis", f"{_REPEATED} by its sweep"),
    _peer("arq", "redis", f"{_REPEATED} when its time is over"),
    _peer("Celery", "redis", f"{_REPEATED} after the visibility timeout of an hour (acks_late)"),
    _peer("Dramatiq", "redis", f"{_REPEATED} when its process is missed"),
    _peer("RQ", "redis", "the job of a dead worker ends up among the failed ones"),
    _peer("FastStream", "nats", f"{_REPEATED} after 30 seconds (JetStream)"),
)
