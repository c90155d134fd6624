"""Which provider carries a tenant's messages, and with which credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pillarbox.errors import InvalidInput, SecretUnavailable
from pillarbox.outbound.edge import check_sender
from pillarbox.outbound.model import Channel
from pillarbox.outbound.policy import OutboundPolicy, ProviderPolicy
from pillarbox.outbound.provider import Account, Provider
from pillarbox.outbound.providers import Providers
from pillarbox.secrets.references import check_reference, read_reference
from pillarbox.text import check_text, printable

Config = Mapping[str, Any]

DEFAULTS: dict[Channel, dict[str, Any]] = {
    "email": {"provider": "sendgrid", "credentials": {"api_key": "env:SENDGRID_API_KEY"}},
    "sms": {
        "provider": "twilio",
        "credentials": {"account_sid": "env:TWILIO_ACCOUNT_SID", "auth_token": "env:TWILIO_AUTH_TOKEN"},
    },
    "webhook": {"provider": "webhook"},
}
"""What carries a channel where neither the tenant nor the operator has chosen."""

_SETTING = "setting:"
_OURS = frozenset({"provider", "from", "credentials"})
_WITH_SENDER = frozenset({"email", "sms", "voice", "whatsapp"})
_AS_IT_IS = ProviderPolicy()


class Accounts:
    """The providers of one process, and how tenants use them."""

    def __init__(self, providers: Providers, policy: OutboundPolicy) -> None:
        self.providers = providers
        self._policy = policy

    def chosen(self, tenant: Mapping[str, Config], channel: Channel) -> Config:
        """The tenant's entry for a channel, else the operator's, else ours; or the sandbox where that takes everything."""
        config = tenant.get(channel) or self._policy.providers.get(channel) or DEFAULTS.get(channel)
        if self._policy.sandbox:
            return {"provider": "sandbox"} | {name: value for name, value in (config or {}).items() if name == "from"}
        if config is None:
            raise InvalidInput("channel", f"no provider carries {channel}; name one in providers.{channel}.")
        return config

    def policy_of(self, provider: Provider) -> ProviderPolicy:
        return self._policy.of_provider.get(provider.name, _AS_IT_IS)

    def options(self, config: Config) -> Mapping[str, Any]:
        """What of an entry is the provider's alone."""
        return {name: value for name, value in config.items() if name not in _OURS}

    async def account(self, provider: Provider, config: Config, options: Mapping[str, Any]) -> Account:
        """The account with its secrets, read here and now; raises `SecretUnavailable`."""
        references = config.get("credentials", {})
        secrets = {name: await self._secret(reference) for name, reference in references.items()}
        return Account(self.policy_of(provider).base_url or provider.base_url, options, secrets)

    async def _secret(self, reference: str) -> str:
        """A reference to a setting is one of ours: no tenant can be given it."""
        if not reference.startswith(_SETTING):
            return await _read(reference)
        name = reference.removeprefix(_SETTING)
        if name not in self._policy.own_secrets:
            raise SecretUnavailable(f"{name} is not set on this node.")
        return self._policy.own_secrets[name]

    def check(self, field: str, channel: Channel, config: Config, *, trusted: frozenset[str] = frozenset()) -> None:
        """Refuse an entry that no message could be sent with; a credential is a reference, never a secret."""
        name = config.get("provider")
        if not isinstance(name, str):
            raise InvalidInput(f"{field}.provider", "must name a provider.")
        provider = self.providers.find(channel, name)
        sender = config.get("from")
        if sender is not None:
            if not isinstance(sender, str):
                raise InvalidInput(f"{field}.from", "must be text.")
            check_text(f"{field}.from", sender, most=500, least=1)
            if channel in _WITH_SENDER:
                check_sender(f"{field}.from", channel, sender)
        self._check_credentials(f"{field}.credentials", provider, config.get("credentials", {}))
        for option in config.keys() - _OURS:
            if option not in provider.options:
                known = ", ".join(provider.options) or "none"
                raise InvalidInput(f"{field}.{printable(option)}", f"is not an option of {name}, which has {known}.")
        if check_options := getattr(provider, "check_options", None):
            check_options(field, config, self._policy.trusted_on(channel) | trusted)

    def _check_credentials(self, field: str, provider: Provider, given: object) -> None:
        if not isinstance(given, dict):
            raise InvalidInput(field, "must be an object of references.")
        known = (*provider.credentials, *provider.optional_credentials)
        for name, reference in given.items():
            if name not in known:
                raise InvalidInput(
                    f"{field}.{printable(name)}",
                    f"is not a credential of {provider.name}: {', '.join(known) or 'none'}.",
                )
            if not isinstance(reference, str):
                raise InvalidInput(f"{field}.{name}", "must be a reference, such as env:NAME.")
            check_reference(f"{field}.{name}", reference)
        for name in provider.credentials:
            if name not in given:
                raise InvalidInput(f"{field}.{name}", "is missing.")


async def _read(reference: str) -> str:
    """Only files can block."""
    if reference.startswith("file:"):
        return await asyncio.to_thread(read_reference, reference)
    return read_reference(reference)
