"""The numbers that others follow from."""

from datetime import timedelta

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
