import inspect
import threading
from collections.abc import Iterator

import apsw
import psycopg
import pytest

from pillarbox import sync
from pillarbox.audit import acting_as
from pillarbox.errors import InvalidInput, KeyBusy, LeaseLost, NotFound, PillarboxError, Unavailable
from pillarbox.filters import parse_filter
from pillarbox.hooks.model import HookEvent
from pillarbox.inbound import InboundMessage
from pillarbox.operators.model import LogItem
from pillarbox.sync import Email, Pillarbox, Sms
from scripts.reference import DOORS
from tests.servers.daemon import SECONDS, SECRETS_KEY

SANDBOX = {"email": {"provider": "sandbox"}, "sms": {"provider": "sandbox"}}
QUICK = {"outbound": {"poll_seconds": 0.05}, "inbox": {"lease_seconds": 0.3}, "secrets": {"key": SECRETS_KEY}}


@pytest.fixture
def box(database_url: str) -> Iterator[Pillarbox]:
    with Pillarbox.open(database_url, settings=QUICK) as opened:
        opened.tenants.set("acme", providers=SANDBOX)
        yield opened


@pytest.fixture
def sqlite_box(sqlite_url: str) -> Iterator[Pillarbox]:
    with Pillarbox.open(sqlite_url, settings=QUICK, timeout=SECONDS) as opened:
        yield opened


def signature_of(function: object) -> list[tuple[str, object]]:
    assert callable(function)
    return [(each.name, each.default) for each in inspect.signature(function).parameters.values()]


def test_every_door_of_a_box_has_the_same_names_and_arguments(sqlite_box: Pillarbox) -> None:
    for door, (kind, methods) in DOORS.items():
        if door == "Pillarbox":
            continue
        ours = type(getattr(sqlite_box, door.removeprefix("box.")))
        for method in methods.split():
            theirs = inspect.unwrap(getattr(kind, method))
            assert signature_of(inspect.unwrap(getattr(ours, method))) == signature_of(theirs), f"{door}.{method}"
            assert inspect.getdoc(getattr(ours, method))


def test_a_box_has_the_same_names() -> None:
    methods = DOORS["Pillarbox"][1].split()
    assert {name for name in methods if not callable(getattr(Pillarbox, name, None))} == set()


def test_what_comes_in_reaches_plain_functions_and_what_goes_out_is_sent(database_url: str) -> None:
    heard: list[str] = []
    done = threading.Event()
    with Pillarbox.open(database_url, settings=QUICK, workers=True) as box:
        threads = set()

        @box.inbound.target("echo")
        def echo(message: InboundMessage) -> None:
            threads.add(threading.current_thread())
            heard.append(message.content)

        @box.hooks.on("agent_stop")
        def finished(event: HookEvent) -> None:
            heard.append(event.event_type)
            done.set()

        box.sessions.open(session_id="s1", target={"kind": "python", "name": "echo"})
        for text in ("one", "two"):
            box.inbound.enqueue(session_id="s1", origin="terminal", content=text)
        box.tenants.set("acme", providers=SANDBOX)
        message_id = box.outbound.send("acme", Email(to="ada@example.com", text="Hello."))
        with box.hooks.follow(0) as events:
            box.hooks.post("s1", "agent_stop")
            assert next(event for event in events if event is not None).event_type == "agent_stop"
        assert done.wait(SECONDS)
        waiting = threading.Event()
        while box.outbound.get(message_id).status != "sent" or "two" not in heard:
            waiting.wait(0.02)
    assert [text for text in heard if text != "agent_stop"] == ["one", "two"]
    assert threading.current_thread() not in threads


def test_run_works_until_it_is_stopped(sqlite_box: Pillarbox) -> None:
    @sqlite_box.inbound.target("echo")
    def echo(message: InboundMessage) -> None:
        sqlite_box.stop()

    sqlite_box.sessions.open(session_id="s1", target={"kind": "python", "name": "echo"})
    posted = sqlite_box.inbound.enqueue(session_id="s1", origin="terminal", content="stop")
    sqlite_box.run()
    assert sqlite_box.inbound.get(posted.id).status == "delivered"


def test_targets_that_block_leave_the_box_its_own_threads(sqlite_url: str) -> None:
    many = 40
    together = threading.Barrier(many + 1)
    answers = []
    with Pillarbox.open(sqlite_url, settings=QUICK, workers=True) as box:

        @box.inbound.target("meet")
        def meet(message: InboundMessage) -> None:
            together.wait(SECONDS)
            answers.append(box.hooks.spooled().files)
            together.wait(SECONDS)

        for number in range(many):
            box.sessions.open(session_id=f"s{number}", target={"kind": "python", "name": "meet"})
            box.inbound.enqueue(session_id=f"s{number}", origin="terminal", content="x")
        together.wait(SECONDS)
        together.wait(SECONDS)
    assert answers == [0] * many


@pytest.mark.parametrize("workers", [True, False])
def test_a_box_that_is_closed_by_its_own_target_ends_when_that_has_ended(sqlite_url: str, workers: bool) -> None:
    returned = threading.Event()
    box = Pillarbox.open(sqlite_url, settings=QUICK, workers=workers)

    @box.inbound.target("last")
    def last(message: InboundMessage) -> None:
        box.close()
        returned.set()

    box.sessions.open(session_id="s1", target={"kind": "python", "name": "last"})
    posted = box.inbound.enqueue(session_id="s1", origin="terminal", content="the end")
    if not workers:
        box.run()
    assert returned.wait(SECONDS)
    box.close()
    with pytest.raises(Unavailable, match="closed"):
        box.inbound.status()
    with Pillarbox.open(sqlite_url, settings=QUICK) as again:
        assert again.inbound.get(posted.id).status == "delivered"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_target_that_leaves_the_program_fails_its_attempt_alone(sqlite_url: str, error: BaseException) -> None:
    again, other = threading.Event(), threading.Event()
    errors: list[str | None] = []
    with Pillarbox.open(sqlite_url, settings=QUICK, workers=True) as box:

        @box.inbound.target("leave")
        def leave(message: InboundMessage) -> None:
            if message.session_id == "s2":
                other.set()
            elif message.attempt_count == 1:
                raise error
            else:
                errors.append(box.inbound.get(message.id).last_error)
                again.set()

        for session_id in ("s1", "s2"):
            box.sessions.open(session_id=session_id, target={"kind": "python", "name": "leave"})
            box.inbound.enqueue(session_id=session_id, origin="terminal", content="x")
        assert again.wait(SECONDS)
        assert other.wait(SECONDS)
    assert type(error).__name__ in str(errors[0])


def test_an_async_target_runs_in_the_boxs_own_thread(sqlite_url: str) -> None:
    ran: list[str] = []
    done = threading.Event()
    with Pillarbox.open(sqlite_url, settings=QUICK, workers=True) as box:

        @box.inbound.target("echo")
        async def echo(message: InboundMessage) -> None:
            ran.append(threading.current_thread().name)
            done.set()

        box.sessions.open(session_id="s1", target={"kind": "python", "name": "echo"})
        box.inbound.enqueue(session_id="s1", origin="terminal", content="x")
        assert done.wait(SECONDS)
    assert ran == ["pillarbox"]


def test_errors_are_the_same_and_a_closed_box_says_so(sqlite_url: str) -> None:
    with Pillarbox.open(sqlite_url) as box:
        with pytest.raises(NotFound):
            box.sessions.get("nobody")
        with pytest.raises(InvalidInput):
            box.outbound.send("acme", "text")  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="closed"):
        box.inbound.status()
    box.close()
    with pytest.raises(InvalidInput, match="timeout"):
        Pillarbox.open(sqlite_url, timeout=0)
    with pytest.raises(InvalidInput, match="database"):
        Pillarbox.open("mysql://x")


def test_a_message_joins_a_transaction_on_the_callers_thread(box: Pillarbox, database_url: str) -> None:
    def send(text: str) -> str:
        message = Sms(to="+32470123456", text=text)
        return box.outbound.send("acme", message, connection=connection, idempotency_key=text)

    connection: psycopg.Connection | apsw.Connection
    if database_url.startswith("sqlite"):
        connection = apsw.Connection(database_url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = psycopg.connect(database_url)
    first = send("kept")
    assert send("kept") == first
    assert box.outbound.list() == []
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    send("given up")
    with pytest.raises(NotFound):
        box.outbound.send("nobody", Sms(to="+32470123456", text="x"), connection=connection)
    connection.execute("ROLLBACK")
    connection.close()
    assert [item.message_id for item in box.outbound.list()] == [first]


def test_a_call_that_takes_too_long_is_given_up(sqlite_url: str) -> None:
    with Pillarbox.open(sqlite_url, timeout=0.2) as box:
        holder = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match=r"within 0\.2 s"):
            box.sessions.open(target={"kind": "none"})
        holder.execute("ROLLBACK")
        holder.close()


def test_a_key_is_handled_once(box: Pillarbox) -> None:
    with box.inbox.once("k") as first:
        assert first
        first.keep({"invoice": 7})
        with box.inbox.once("k") as second:
            assert (bool(second), second.status) == (False, "Busy")
    with box.inbox.once("k") as third:
        assert (bool(third), third.status, third.result) == (False, "Processed", {"invoice": 7})


def test_a_key_whose_body_raises_is_free_again(box: Pillarbox) -> None:
    with pytest.raises(ZeroDivisionError), box.inbox.once("k"):
        raise ZeroDivisionError
    assert box.inbox.look("k").status == "Free"


def test_a_lost_lease_is_told_to_the_body_and_raised_at_its_end(box: Pillarbox) -> None:
    def work() -> None:
        with box.inbox.once("k") as first:
            assert first.lease_id
            assert not first.lost
            box.inbox.release("k", first.lease_id)
            while not first.lost:
                waiting.wait(0.02)

    waiting = threading.Event()
    with pytest.raises(LeaseLost):
        work()
    assert box.inbox.look("k").status == "Free"


def test_an_idempotent_function_runs_once_for_each_key(sqlite_box: Pillarbox) -> None:
    calls = []

    @sqlite_box.inbox.idempotent(key=lambda number: f"invoice:{number}")
    def invoice(number: int) -> str:
        calls.append(number)
        with pytest.raises(KeyBusy):
            invoice(number)
        return f"paid {number}"

    assert [invoice(1), invoice(1), invoice(2)] == ["paid 1", "paid 1", "paid 2"]
    assert calls == [1, 2]


def test_many_threads_share_one_box(sqlite_box: Pillarbox) -> None:
    sqlite_box.sessions.open(session_id="s1", target={"kind": "none"})

    def post() -> None:
        for _ in range(25):
            sqlite_box.inbound.enqueue(session_id="s1", origin="terminal", content="x")

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message.seq for message in sqlite_box.inbound.list(limit=1000)) == list(range(1, 201))


def test_an_async_function_of_the_boxs_own_thread_is_told_why_it_cannot_wait(sqlite_url: str) -> None:
    said: list[str] = []
    done = threading.Event()
    with Pillarbox.open(sqlite_url, workers=True) as box:

        @box.hooks.on()
        async def listen(event: HookEvent) -> None:
            try:
                box.inbound.status()
            except PillarboxError as error:
                said.append(str(error))
            done.set()

        box.sessions.open(session_id="s1", target={"kind": "none"})
        box.hooks.post("s1", "agent_stop")
        assert done.wait(SECONDS)
        with pytest.raises(PillarboxError, match="already"):
            box.run()
    assert "cannot wait for itself" in said[0]


def test_what_is_exported_is_what_a_program_needs() -> None:
    assert {"Pillarbox", "Email", "Sms", "Push", "Webhook", "PermanentError"} <= set(sync.__all__)


def test_operators_look_and_act_without_awaiting(sqlite_box: Pillarbox) -> None:
    sqlite_box.tenants.set("acme", providers=SANDBOX)
    sqlite_box.outbound.send("acme", Sms(to="+32470123456", text="x"))
    everything = parse_filter("channel:sms")
    with sqlite_box.log.follow() as changes:
        sqlite_box.sessions.open(session_id="s1", target={"kind": "none"})
        sqlite_box.inbound.enqueue(session_id="s1", origin="terminal", content="new")
        assert next(change for change in changes if isinstance(change, LogItem)).summary == "new"
    assert [item.channel for item in sqlite_box.log.page(everything).items] == ["sms"]
    assert len(sqlite_box.log.messages("acme").items) == sqlite_box.log.count(everything).matching == 1
    assert sqlite_box.operations.preview("cancel", everything).matching == 1
    with acting_as("program:test"):
        started = sqlite_box.operations.start("cancel", everything)
    while sqlite_box.operations.get(started.operation_id).state == "running":
        sqlite_box.operations.finish(started.operation_id)
    assert sqlite_box.outbound.list()[0].status == "canceled"
    assert "program:test" in {action.who for action in sqlite_box.audit.list()}
    sqlite_box.sandbox.arrange("fail", times=2)
    assert [control.remaining for control in sqlite_box.sandbox.list()] == [2]
    sqlite_box.sandbox.clear()
    link = sqlite_box.embeds.make("acme")
    assert sqlite_box.embeds.open(link.token)
    sqlite_box.embeds.revoke("acme")
    assert sqlite_box.embeds.open(link.token) is None
    assert (sqlite_box.attention().items, sqlite_box.nodes.list()) == ([], [])
