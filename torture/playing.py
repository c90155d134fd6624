"""One round: set the stage, make trouble until there was enough of it, let everything calm down, and check."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw
import psycopg

from torture.again import note
from torture.asking import ask
from torture.caller import ORDERS, connect
from torture.evidence import gather
from torture.journal import Journal
from torture.moments import Onlooker
from torture.nemesis import MANNERS, Nemesis
from torture.outcome import Outcome, judge
from torture.places import Place
from torture.plan import Plan
from torture.rules import Violation
from torture.stage import Stage

_CALM_SECONDS = 180.0
_LONGEST = 2.5
_OPEN = (
    "SELECT (SELECT count(*) FROM inbound_queue WHERE status IN ('pending', 'processing', 'failed'))"
    " + (SELECT count(*) FROM hook_outbox WHERE status IN ('pending', 'processing', 'failed'))"
    " + (SELECT count(*) FROM message_queue)"
)


def play(plan: Plan, number: int, enough: Callable[[int, Counter[str]], bool]) -> Outcome:
    """Play one round; `enough` is asked with the messages and faults so far. The folder stays if anything is wrong."""
    seed = random.Random(f"{plan.seed} {number}").randrange(2**32)
    folder = Path(tempfile.mkdtemp(prefix=f"pillarbox-torture-{plan.seed}-{number}-"))
    folder.chmod(0o755)
    note(plan, folder)
    outcome = Outcome(seed, folder=str(folder))
    place = Place(plan.database, folder, small_disk=number % 2 == 0)
    began = time.monotonic()
    try:
        place.prepare()
        stage = Stage(plan, seed, folder, place)
        try:
            _torment(plan, stage, place, outcome, enough)
        finally:
            stage.kill()
        evidence = gather(folder, place.url, nodes=plan.nodes, lease=plan.lease, inbox_lease=plan.inbox_lease)
        judge(outcome, evidence)
    except (KeyboardInterrupt, SystemExit):
        left = f"what was wrong is in {folder}" if outcome.violations else "nothing is left of it"
        print(f"interrupted: round {number} was not checked, {left}", flush=True)
        raise
    except BaseException:
        outcome.violations.append(Violation("harness", "the round itself failed"))
        print(f"round {number} itself failed; everything is in {folder}", flush=True)
        raise
    finally:
        place.remove(keep=bool(outcome.violations))
    outcome.seconds = time.monotonic() - began
    return outcome


def _torment(
    plan: Plan, stage: Stage, place: Place, outcome: Outcome, enough: Callable[[int, Counter[str]], bool]
) -> None:
    folder = Path(outcome.folder)
    stage.start()
    connect(place.url).execute(ORDERS)
    stage.behave(MANNERS)
    journal = Journal(folder / "faults.jsonl")
    nemesis = Nemesis(
        chance=random.Random(outcome.seed),
        journal=journal,
        nodes=stage.nodes,
        callers=stage.callers,
        place=place,
        lease=plan.lease,
        behave=stage.behave,
    )
    outcome.missing = nemesis.missing
    rested = threading.Event()
    threading.Thread(target=nemesis.watch, args=[rested], daemon=True).start()
    onlooker = Onlooker(place.url, Journal(folder / "moments.jsonl"))
    if plan.calm:
        while not enough(stage.acknowledged, nemesis.counts):
            rested.wait(0.1)
    else:
        nemesis.run(_over(plan, stage, nemesis, enough), pace=plan.pace)
    outcome.violations += [Violation("harness", repr(error)) for error in nemesis.errors]
    stage.behave({})
    stage.end_producing()
    if (left := _until_calm(place.url, stage)) != 0:
        outcome.violations.append(Violation("liveness", f"{left} still open {_CALM_SECONDS:g} s after the last fault"))
    rested.set()
    journal.close()
    onlooker.close()
    ask(folder, [node.port for node in stage.nodes if node.port], stage.target, outcome.seed)
    for node in stage.nodes:
        if not node.alive:
            outcome.violations.append(Violation("living", f"{node.name} had ended by itself"))
        elif (code := node.terminate()) != 0:
            outcome.violations.append(Violation("stopping", f"{node.name} ended with {code} at rest"))


def _over(
    plan: Plan, stage: Stage, nemesis: Nemesis, enough: Callable[[int, Counter[str]], bool]
) -> Callable[[], bool]:
    """When it is enough, and where every kind of fault is wanted, each has happened; or time is up all the same."""
    deadline = time.monotonic() + _LONGEST * plan.seconds

    def over() -> bool:
        kinds_missing = plan.every_kind and nemesis.owed() and time.monotonic() < deadline
        return enough(stage.acknowledged, nemesis.counts) and not kinds_missing

    return over


def _until_calm(database: str, stage: Stage) -> int:
    """Wait until nothing is left to do; how much is left when that does not happen."""
    deadline, waiting, left = time.monotonic() + _CALM_SECONDS, threading.Event(), -1
    while time.monotonic() < deadline:
        waiting.wait(0.3)
        try:
            left = next(iter(connect(database).execute(_OPEN)))[0]
        except (apsw.Error, psycopg.Error):
            continue
        spooled = stage.spooled()
        if left == 0 and spooled == 0:
            return 0
        left += spooled
    return left
