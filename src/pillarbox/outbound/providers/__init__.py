"""Those who carry messages on: one small file each, pure around one request."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import CHANNELS, Channel
from pillarbox.outbound.provider import Provider
from pillarbox.outbound.providers.discord import Discord
from pillarbox.outbound.providers.sandbox import Sandbox
from pillarbox.outbound.providers.sendgrid import SendGrid
from pillarbox.outbound.providers.slack import Slack
from pillarbox.outbound.providers.telegram import Telegram
from pillarbox.outbound.providers.twilio import Twilio
from pillarbox.outbound.providers.webhook import Webhook
from pillarbox.outbound.providers.whatsapp import WhatsApp
from pillarbox.telemetry.logs import logger
from pillarbox.telemetry.redact import brief

GROUP = "pillarbox.providers"

_log = logger(__name__)


class Providers(Mapping[str, Provider]):
    """Providers by name: our own, and those of installed packages, which are loaded when somebody asks for one."""

    def __init__(self, ours: Mapping[str, Provider]) -> None:
        self._ours = ours
        self._all: Mapping[str, Provider] | None = None

    def find(self, channel: Channel, name: str) -> Provider:
        """The provider of that name, if it carries that channel."""
        provider = self.get(name)
        if provider is None or channel not in provider.channels:
            known = ", ".join(sorted(other.name for other in self.values() if channel in other.channels))
            raise InvalidInput(f"providers.{channel}.provider", f"must be one of {known}.")
        return provider

    def __getitem__(self, name: str) -> Provider:
        return self._ours[name] if name in self._ours else self._with_plugins()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._with_plugins())

    def __len__(self) -> int:
        return len(self._with_plugins())

    def loaded(self) -> Collection[Provider]:
        """Those that somebody may have used; what other packages offer is not loaded for this."""
        return (self._ours if self._all is None else self._all).values()

    def _with_plugins(self) -> Mapping[str, Provider]:
        if self._all is None:
            self._all = {**_plugins(taken=frozenset(self._ours)), **self._ours}
        return self._all


def providers(*more: Provider) -> Providers:
    """New providers, with what else has to be set up before; each keeps its own connections and memory."""
    ours: dict[str, Provider] = {}
    chats = (Discord(), Slack(), Telegram(), WhatsApp())
    for provider in (SendGrid(), Twilio(), Webhook(), *chats, Sandbox(), *more):
        if provider.name in ours:
            raise ValueError(f"Two providers are named {provider.name}.")
        ours[provider.name] = provider
    return Providers(ours)


def _plugins(*, taken: frozenset[str]) -> dict[str, Provider]:
    """What installed packages offer; one that cannot be used is logged and left out."""
    found: dict[str, Provider] = {}
    for entry in entry_points(group=GROUP):
        try:
            provider = entry.load()()
            _check(provider)
            if provider.name in taken or provider.name in found:
                raise ValueError("its name is taken.")
        except Exception as error:
            _log.error("a provider of another package cannot be used", entry_point=entry.name, error=brief(error))
        else:
            found[provider.name] = provider
    return found


def _check(provider: Any) -> None:
    """Whether something promises what a provider promises; what it does shows when it is used."""
    if not isinstance(provider.name, str) or not provider.name:
        raise TypeError("its name must be text.")
    if not provider.channels or not provider.channels <= frozenset(CHANNELS):
        raise TypeError("its channels must be some of ours.")
    for names in (provider.credentials, provider.optional_credentials, provider.options):
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise TypeError("its credentials and options must be tuples of names.")
    if not isinstance(provider.base_url, str):
        raise TypeError("its base_url must be text.")
    direct = callable(getattr(provider, "send", None))
    if not direct and not all(callable(getattr(provider, verb, None)) for verb in ("request", "verdict")):
        raise TypeError("it must have request and verdict, or send.")
