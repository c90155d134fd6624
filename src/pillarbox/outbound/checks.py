"""What is checked of the operator's settings before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable

from pillarbox.errors import InvalidInput, SettingsError
from pillarbox.outbound.accounts import Accounts
from pillarbox.outbound.destinations import check_origin
from pillarbox.outbound.lane import queries
from pillarbox.outbound.model import CHANNELS
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.providers import Providers
from pillarbox.storage import Database, Row, Step


def check_policy(policy: OutboundPolicy, accounts: Accounts, providers: Providers) -> None:
    """Refuse numbers and names of the operator's that nothing could be sent with; the fault names its setting."""
    for channel, config in policy.providers.items():
        if channel not in CHANNELS:
            raise InvalidInput(f"outbound.providers.{channel}", f"is no channel; those are {', '.join(CHANNELS)}.")
        accounts.check(f"outbound.providers.{channel}", channel, config)
    _check_origins("outbound", policy.trusted)
    for channel, own in policy.channels.items():
        _check_origins(f"outbound.channels.{channel}", own.trusted or ())
    for name, provider in policy.of_provider.items():
        if name not in providers:
            raise InvalidInput(f"providers.{name}", f"is no provider; those are {', '.join(sorted(providers))}.")
        if provider.timeout is not None and provider.timeout >= policy.lease.total_seconds():
            raise InvalidInput(f"providers.{name}.timeout_seconds", "must be below outbound.lease_seconds.")


def _check_origins(section: str, trusted: Iterable[str]) -> None:
    for index, origin in enumerate(sorted(trusted)):
        check_origin(f"{section}.trusted_destinations.{index}", origin)


async def remembered_key(database: Database) -> str | None:
    """The id of the key that this database was begun with, if it was begun."""
    rows = await database.read(_remembered)
    return rows[0][0] if rows else None


async def check_key(database: Database, key_id: str, *, file: str | None = None) -> None:
    """Refuse another key than the first one of this database: opt-outs that it hashed would no longer be found."""

    def remember() -> Step[list[Row]]:
        yield queries.remember_sealing_key(key_id=key_id)
        return (yield queries.sealing_key())

    rows = await database.read(_remembered) or await database.write(remember)
    if rows[0][0] != key_id:
        raise SettingsError(
            "secrets.key is not the one that this database was begun with; set that one again."
            if file is None
            else f"The key file {file} is not the one that this database was begun with; put back a copy of that one."
        )


def _remembered() -> Step[list[Row]]:
    return (yield queries.sealing_key())
