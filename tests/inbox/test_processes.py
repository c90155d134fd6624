"""Real processes on one store: killed, stopped past their lease, and started again."""

import asyncio
import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass

from pillarbox.inbox.remote import RemoteInbox
from tests.architecture.repository import ROOT
from tests.inbox.contender import LEASE
from tests.servers.daemon import ADMIN_KEY, Daemon, Lines, environment

CONTENDERS = 4
TURNS = 8


@dataclass
class Contender:
    process: subprocess.Popen[bytes]
    lines: Lines


@dataclass
class Span:
    """For how long one process believed that it held the key."""

    lease_id: str
    seen: float
    since: float
    until: float
    gave_up: float = float("inf")

    def is_over_before(self, other: "Span") -> bool:
        return self.gave_up <= other.seen or self.until <= other.since


def spans_of(text: str) -> list[Span]:
    spans: list[Span] = []
    for line in text.splitlines():
        match line.split():
            case ["held", lease_id, seen, since, until]:
                spans.append(Span(lease_id, float(seen), float(since), float(until)))
            case ["gives-up", lease_id, seen]:
                for span in spans:
                    if span.lease_id == lease_id:
                        span.gave_up = float(seen)
    return spans


def disturb(contenders: list[Contender], url: str, waiting: threading.Event) -> str:
    """Kill or stop whoever comes up, again and again; what the killed ones had said."""
    said = ""
    for turn in range(TURNS):
        victim = random.randrange(len(contenders))
        contender = contenders[victim]
        if turn % 2:
            contender.process.kill()
            contender.process.wait()
            said += contender.lines.whole()
            contenders[victim] = start(url)
        else:
            contender.process.send_signal(signal.SIGSTOP)
            waiting.wait(LEASE * 1.5)
            contender.process.send_signal(signal.SIGCONT)
        waiting.wait(0.2)
    return said


def start(url: str) -> Contender:
    command = [sys.executable, "-m", "tests.inbox.contender", url, "the key"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment({}, {}), stdout=subprocess.PIPE)
    assert process.stdout is not None
    return Contender(process, Lines(process.stdout))


def test_no_two_processes_hold_a_key_at_once_however_they_are_killed_and_stopped(database_url: str) -> None:
    contenders = [start(database_url)]
    try:
        contenders[0].lines.expect("^held ")
        contenders += [start(database_url) for _ in range(CONTENDERS - 1)]
        for contender in contenders[1:]:
            contender.lines.expect("^held ")
        said = disturb(contenders, database_url, threading.Event())
    finally:
        for contender in contenders:
            contender.process.kill()
            contender.process.wait()
    said += "".join(contender.lines.whole() for contender in contenders)
    # Whoever was stopped with the answer on its way knows from the answer that its time is over.
    spans = sorted((span for span in spans_of(said) if span.since < span.until), key=lambda span: span.seen)
    assert len({span.lease_id for span in spans}) >= TURNS / 2
    for index, one in enumerate(spans):
        for other in spans[index + 1 :]:
            if other.lease_id != one.lease_id:
                assert one.is_over_before(other), (one, other)


async def test_processed_never_reverts_with_two_servers_on_one_store_that_are_killed(database_url: str) -> None:
    with Daemon(database_url) as one, Daemon(database_url) as two:
        stores = [RemoteInbox(server.base_url, key=ADMIN_KEY) for server in (one, two)]
        begins = await asyncio.gather(*(stores[n % 2].try_begin("k", lease=60) for n in range(50)))
        won = [begun.lease_id for begun in begins if begun.status == "Acquired"]
        assert len(won) == 1
        assert won[0] is not None
        # Whoever gave the lease: both know it, and both know the mark.
        assert (await stores[1].extend("k", won[0], lease=60)).status == "Extended"
        assert (await stores[0].mark_processed("k", won[0], result="done")).status == "Processed"
        one.kill()
        again = await stores[1].try_begin("k", lease=60)
        assert (again.status, again.result) == ("Processed", "done")
        two.kill()
        one.start()
        stores.append(RemoteInbox(one.base_url, key=ADMIN_KEY))
        for _ in range(3):
            assert (await stores[2].try_begin("k", lease=60)).status == "Processed"
        assert (await stores[2].release("k", won[0])).status == "LeaseLost"
        assert (await stores[2].look("k")).status == "Processed"
        for store in stores:
            await store.close()
