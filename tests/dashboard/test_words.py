"""What the pages say: sentences, spans, and the flow of many processes."""

import shlex
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from pillarbox.box import Pillarbox
from pillarbox.dashboard import explain
from pillarbox.dashboard.presenting import call_of, segments_of
from pillarbox.dashboard.pulse import Pulse, Rate
from pillarbox.dashboard.words import distance, foreign, marked, span
from pillarbox.outbound.messages import Email, Sms, Webhook
from pillarbox.outbound.model import Attempt, Event, OutboundMessage

NOW = datetime.now(UTC)


def message(status: str, **fields: object) -> OutboundMessage:
    known = {
        "message_id": "m",
        "tenant_id": "acme",
        "channel": "email",
        "to_address": "ann@example.com",
        "subject": None,
        "status": status,
        "attempt_count": 1,
        "max_attempts": 5,
        "priority": 100,
        "next_attempt_at": None,
        "last_attempt_at": NOW,
        "sent_at": None,
        "delivered_at": None,
        "failed_at": None,
        "error_message": None,
        "provider": None,
        "provider_msg_id": None,
        "category": "transactional",
        "tags": (),
        "created_at": NOW,
        "updated_at": NOW,
        "body_text": None,
        "body_html": None,
        "attempts": (),
        "events": (),
    }
    return OutboundMessage(**(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (message("pending"), "It is ready and will be sent as soon as a worker has a free place."),
        (message("pending", next_attempt_at=NOW + timedelta(days=2)), "It is scheduled and will be sent in 2 d"),
        (
            message("retrying", next_attempt_at=NOW + timedelta(days=5), error_message="Busy."),
            "Attempt 1 did not succeed: Busy. It will be tried again in 5 d",
        ),
        (message("failed", error_message="No such mailbox."), "It was refused for good: No such mailbox. It will not"),
        (
            message("failed", attempt_count=5, error_message="Busy."),
            "It failed in 5 attempts: Busy. It will not be tried",
        ),
        (message("sent", provider="sendgrid", sent_at=NOW), "sendgrid accepted it "),
        (message("canceled", error_message="Opted out."), "It was canceled and will not be sent: Opted out."),
        (message("expired"), "Its time was over before it could be sent. It will not be tried again by itself."),
    ],
)
def test_a_message_tells_what_will_become_of_it(shown: OutboundMessage, sentence: str) -> None:
    assert explain.of_outbound(shown).sentence.startswith(sentence)


def test_a_retry_gives_as_many_further_attempts() -> None:
    attempt = Attempt(
        attempt=1, started_at=NOW, finished_at=NOW, outcome="rejected", status_code=None, error=None, provider=None
    )
    retried = message("retrying", attempts=(attempt,), events=(Event(type="retried", at=NOW),))
    assert explain.attempt_limit(retried) == 6


def test_spans_and_distances_read_well() -> None:
    assert [span(seconds) for seconds in (0.25, 1, 2.5, 59, 60, 7200, 200_000)] == [
        *("250 ms", "1 s", "2.5 s", "59 s", "1 min", "2 h", "2 d")
    ]
    assert distance(NOW + timedelta(seconds=90), NOW) == "in 2 min"
    assert distance(NOW - timedelta(seconds=5), NOW) == "5 s ago"


def test_foreign_text_cannot_turn_or_hide_the_text_around_it() -> None:
    assert foreign("a\u202eb<\x07") == "<bdi>a\\u202eb&lt;\\u0007</bdi>"
    assert marked("tab\tand\nline \x1b[31m \u202e") == "tab\tand\nline \\u001b[31m \\u202e"
    assert (
        marked("10\u00a0EUR あ\u3000い \U0001f468\u200d\U0001f469")
        == "10\u00a0EUR あ\u3000い \U0001f468\u200d\U0001f469"
    )
    assert marked("x" * 12, 10).startswith("xxxxxxxxxx\n<em")


async def test_a_text_message_is_shown_in_segments_and_a_webhook_as_a_command(box: Pillarbox) -> None:
    text = await box.outbound.get(await box.outbound.send("acme", Sms(to="+15005550006", text="é" * 161)))
    segments = segments_of(text)
    assert segments is not None
    assert (segments.encoding, segments.number) == ("GSM-7", 2)
    hook = Webhook(url="https://example.com/it's", body={"a": "'"}, headers={"X-Key": "hidden"})
    message_id = await box.outbound.send("acme", hook)
    shown, content = await box.outbound.get(message_id), await box.outbound.contents.get(message_id)
    call = call_of(shown, content)
    assert call is not None
    assert call.command.startswith("curl --globoff -X POST 'https://example.com/it'\"'\"'s' \\\n  -H 'X-Key: …'")
    assert "hidden" not in call.command + str(content)
    assert (call.signed, "webhook-signature" in call.command) == (None, False)


async def test_only_a_webhook_with_a_signing_secret_is_shown_with_a_signature(box: Pillarbox) -> None:
    secret = {"provider": "webhook", "credentials": {"signing_secret": "env:SIGNING"}, "signature_header": "X-Sig"}
    for tenant, config, signed in (("plain", {"provider": "webhook"}, False), ("signs", secret, True)):
        await box.tenants.set(tenant, providers={"webhook": config})
        message_id = await box.outbound.send(tenant, Webhook(url="https://example.com/[1-3]/{a,b}", body=[1]))
        shown, content = await box.outbound.get(message_id), await box.outbound.contents.get(message_id)
        call = call_of(shown, content)
        assert call is not None
        assert call.signed == (f"{message_id}.{int(shown.created_at.timestamp())}.[1]" if signed else None)
        assert ("-H 'webhook-signature: …'" in call.command, "-H 'X-Sig: …'" in call.command) == (signed, signed)
        assert "SIGNING" not in call.command
        # What a shell and curl would make of it: one URL, as it is.
        words = shlex.split(call.command)
        assert words[:5] == ["curl", "--globoff", "-X", "POST", "https://example.com/[1-3]/{a,b}"]


async def test_a_message_sent_again_says_the_same_but_for_the_changes(box: Pillarbox) -> None:
    first = Email(
        to="ann@example.com",
        subject="s",
        text="t",
        html="<p>h</p>",
        from_="a@b.io",
        cc=["c@d.io"],
        headers={"X-A": "b"},
    )
    message_id = await box.outbound.send("acme", first)
    tenant, again = await box.outbound.contents.again(message_id, {"subject": "other", "html": ""})
    expected = msgspec.structs.replace(first.new_message(), subject="other", html=None, max_attempts=again.max_attempts)
    assert (tenant, again) == ("acme", expected)


async def test_the_flow_of_all_processes_is_added_up(box: Pillarbox) -> None:
    pulse = Pulse(box)
    await pulse.look()
    for _ in range(3):
        box.metrics.outbound.sent.labels(channel="email").inc()
        box.metrics.outbound.send_duration.labels(channel="email", provider="smtp").observe(0.25)
    point = await pulse.look()
    rate = point.series["outbound.email"]
    assert rate.well > 0
    assert rate.badly == 0
    assert rate.milliseconds == 250.0
    assert pulse.points[-1] == point
    quiet = await pulse.look()
    assert quiet.series["outbound.email"] == Rate(0.0, 0.0, None)


def test_a_summary_is_read_on_one_line_and_what_would_mislead_is_written_out() -> None:
    assert foreign("Two lines \r\n\n and\ta tab\n") == "<bdi>Two lines and a tab</bdi>"
    assert foreign("a\x1b[2Jb\x00") == r"<bdi>a\u001b[2Jb\u0000</bdi>"
