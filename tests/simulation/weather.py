"""What a story meets, whatever lane it tells of: how many nodes, how slow, and what is done to them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.simulation.process import Rates

AN_HOUR = 3600.0
TROUBLE = 45.0
CALM = Rates()


@dataclass(frozen=True, slots=True)
class Weather:
    """Decided before the story begins."""

    nodes: int = 1
    concurrency: int = 8
    lease: float = 12.0
    timeout: float = 6.0
    poll: float = AN_HOUR
    latency: float = 0.02
    longest_delivery: float = 0.5
    spread: int = 4
    rates: Rates = CALM
    blows: int = 0
    ends: int = 0
    rings_lost: float = 0.0
    skew: float = 0.0
    steps: int = 0
    apart: bool = False
    """Whether settling goes on while claiming does, as on PostgreSQL, however little there is of both."""
    kill_at_step: int | None = None

    @property
    def quiet(self) -> bool:
        """Nothing fails, so that nobody has an excuse."""
        troubled = self.blows or self.ends or self.kill_at_step or self.rings_lost or self.steps
        failing = self.rates.store or self.rates.odd or self.rates.wedge or self.rates.target
        return not troubled and not failing


def weather_from(random: Random, *, seed: int) -> Weather:
    """From undisturbed to everything at once."""
    lease = random.choice([6.0, 12.0, 30.0])
    timeout = random.choice([lease / 4, lease * 2 / 3])
    rings_lost = random.choice([0.0, 0.0, 0.0, 0.3])
    trouble = random.choice(["none", "targets", "store", "blows", "wedges", "ends", "clocks", "all", "all"])

    # Whoever wrote something and does not hear so rings nobody: then only polling finds it.
    polls = rings_lost or trouble in ("store", "all")

    def when(kind: str, value: float) -> float:
        return value if trouble in (kind, "all") else 0.0

    return Weather(
        nodes=random.randint(1, 3),
        concurrency=random.choice([1, 2, 4, 8]),
        lease=lease,
        timeout=timeout,
        poll=1.0 if polls else AN_HOUR,
        latency=random.choice([0.0, 0.002, 0.05, 0.4]),
        longest_delivery=random.choice([0.05, 0.5, timeout * 0.9]),
        spread=random.choice([1, 3, 100]),
        rates=Rates(
            store=when("store", random.choice([0.05, 0.3, 0.8])),
            odd=when("store", random.choice([0.0, 0.05])),
            target=when("targets", random.choice([0.1, 0.5])),
            wedge=when("wedges", 0.1),
        ),
        blows=int(when("blows", random.randint(1, 4))),
        ends=int(when("ends", random.randint(1, 8))),
        rings_lost=rings_lost,
        skew=when("clocks", random.choice([0.0, 0.1])),
        steps=int(when("clocks", random.randint(1, 3))),
        apart=seed % 4 == 2,
    )
