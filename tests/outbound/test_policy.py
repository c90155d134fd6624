"""The numbers that others follow from."""

from datetime import timedelta
from random import Random

import pytest

from pillarbox.outbound.policy import ChannelPolicy, OutboundPolicy, ProviderPolicy


@pytest.mark.parametrize("timeout", [1.0, 15.0, 40.0, 54.0, 59.0])
def test_no_attempt_is_given_up_before_its_provider_s_timeout_or_after_the_lease(timeout: float) -> None:
    policy = OutboundPolicy(
        channel=ChannelPolicy(timeout=0.5),
        lease=timedelta(seconds=60),
        of_provider={"webhook": ProviderPolicy(timeout=timeout), "smtp": ProviderPolicy()},
    )
    assert timeout < policy.longest_attempt < 60


def test_a_channel_s_own_timeout_counts_too() -> None:
    policy = OutboundPolicy(channels={"email": ChannelPolicy(timeout=50)})
    assert 50 < policy.longest_attempt < 60


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 60), (2, 120), (3, 240), (4, 480), (30, 60 * 2**29)])
def test_each_wait_is_twice_the_one_before_it(attempt: int, seconds: float) -> None:
    assert ChannelPolicy(jitter=0.0).delay(attempt, Random(0)) == seconds


def test_after_thirty_attempts_waits_grow_no_more() -> None:
    policy = ChannelPolicy(jitter=0.0)
    assert policy.delay(31, Random(0)) == policy.delay(30, Random(0)) == policy.delay(10_000, Random(0))


def test_a_wait_is_spread_by_the_jitter_both_ways() -> None:
    policy, random = ChannelPolicy(backoff_base=10.0, jitter=0.2), Random(0)
    waits = [policy.delay(1, random) for _ in range(500)]
    assert 8 <= min(waits) < 8.2
    assert 11.8 < max(waits) <= 12


OWN = ChannelPolicy(
    retry_after_most=5.0,
    retention=timedelta(days=1),
    attachment_roots=("/own",),
    trusted=frozenset({"own.example"}),
)
SHARED = OutboundPolicy(
    channels={"email": OWN, "sms": ChannelPolicy()},
    retry_after_most=7.0,
    retention=timedelta(days=2),
    attachment_roots=("/shared",),
    trusted=frozenset({"shared.example"}),
)


def test_a_channel_with_numbers_of_its_own_has_those() -> None:
    assert SHARED.of("email") is OWN
    assert SHARED.retry_after_most_on("email") == 5.0
    assert SHARED.retention_on("email") == timedelta(days=1)
    assert SHARED.attachment_roots_on("email") == ("/own",)
    assert SHARED.trusted_on("email") == {"own.example"}


@pytest.mark.parametrize("channel", ["sms", "webhook"])
def test_every_other_channel_has_those_of_outbound(channel: str) -> None:
    assert SHARED.retry_after_most_on(channel) == 7.0  # type: ignore[arg-type]
    assert SHARED.retention_on(channel) == timedelta(days=2)  # type: ignore[arg-type]
    assert SHARED.attachment_roots_on(channel) == ("/shared",)  # type: ignore[arg-type]
    assert SHARED.trusted_on(channel) == {"shared.example"}  # type: ignore[arg-type]


def test_nothing_is_kept_shorter_or_longer_than_some_channel_says() -> None:
    assert (SHARED.shortest_retention, SHARED.longest_retention) == (timedelta(days=1), timedelta(days=2))
