"""From a message as it was handed in to one that can be stored."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import msgspec

from pillarbox.clock import Clock
from pillarbox.errors import InvalidInput
from pillarbox.outbound import contacts
from pillarbox.outbound.accounts import Accounts
from pillarbox.outbound.edge import check_message
from pillarbox.outbound.enqueue import Answer, Claim, Order, answer_to
from pillarbox.outbound.ids import new_id
from pillarbox.outbound.model import Checked, NewMessage, Queued, Tenant
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.secrets.sealing import Sealer
from pillarbox.storage import Database
from pillarbox.telemetry.traces import current_trace
from pillarbox.text import printable

_LONGEST_KEY = 255


class Orders:
    """Checks messages for their tenants, hashes their recipients, seals their secrets."""

    def __init__(self, accounts: Accounts, *, sealer: Sealer, policy: OutboundPolicy, clock: Clock) -> None:
        self._accounts = accounts
        self._sealer = sealer
        self._policy = policy
        self._clock = clock

    def order(self, tenant: Tenant, new: NewMessage, idempotency_key: str | None) -> Order:
        """The message, complete and canonical, or `InvalidInput` that names the field at fault."""
        config = self._accounts.chosen(tenant.providers, new.channel)
        is_real = config["provider"] != "sandbox"
        if is_real and new.channel == "email" and new.category == "marketing" and not self._policy.public_url:
            raise InvalidInput(
                "category", "marketing needs an unsubscribe link; the operator must set http.public_url."
            )
        checked = check_message(
            new,
            sender=config.get("from"),
            sender_required=is_real,
            trusted=self._policy.trusted_on(new.channel) | frozenset(tenant.settings.trusted_destinations),
            attachment_roots=self._policy.attachment_roots_on(new.channel),
            now=self._clock.shown(self._clock.now()),
        )
        message_id = new_id()
        forms = dict.fromkeys((*checked.contacts, contacts.form_for_all(checked.channel, checked.contacts[0])))
        hashes = tuple(self._sealer.contact_hash(tenant.tenant_id, each) for each in forms)
        limit = checked.max_attempts or tenant.settings.max_attempts or self._policy.of(checked.channel).max_attempts
        return Order(
            message_id,
            tenant.tenant_id,
            self._on_timeline(checked),
            hashes,
            limit,
            sealed=self._sealed(tenant.tenant_id, message_id, checked.secret_headers),
            key=None if idempotency_key is None else self._key(tenant.tenant_id, idempotency_key),
            fingerprint="" if idempotency_key is None else self._fingerprint(tenant.tenant_id, new),
            trace=current_trace(),
        )

    def unsendable(self, tenant: Tenant, new: NewMessage) -> Order:
        """A message that could not be checked, so that it can be stored as failed; nothing of it is ever sent as it is."""
        to = printable(new.to, _LONGEST_KEY) or "?"
        message_id, hashed = new_id(), self._sealer.contact_hash(tenant.tenant_id, to)
        checked = Checked(channel=new.channel, to=to, contacts=(to,), text=new.text, tags=tuple(new.tags))
        return Order(message_id, tenant.tenant_id, checked, (hashed,), 1, trace=current_trace())

    async def answered_before(
        self, tenant_id: str, new: NewMessage, idempotency_key: str | None, database: Database, connection: Any
    ) -> Queued | None:
        """The first answer to a key, if it was used before; looked for on the caller's connection, if there is one."""
        claim = None if idempotency_key is None else self._claim(tenant_id, new, idempotency_key)
        if claim is None:
            return None
        if connection is None:
            return _or_raise(await database.read(partial(answer_to, claim)))
        from pillarbox.outbound import foreign

        return _or_raise(await foreign.look_up(connection, claim, database))

    def put_on(
        self, connection: Any, tenant: Tenant, new: NewMessage, idempotency_key: str | None, database: Database
    ) -> Queued:
        """Queue a message in the caller's transaction, without an event loop."""
        from pillarbox.outbound import foreign

        try:
            order = self.order(tenant, new, idempotency_key)
        except InvalidInput:
            claim = None if idempotency_key is None else self._claim(tenant.tenant_id, new, idempotency_key)
            answered = None if claim is None else _or_raise(foreign.look_up_blocking(connection, claim, database))
            if answered is None:
                raise
            return answered
        return foreign.enqueue_blocking(connection, order, database, now=self._clock.now())

    def _claim(self, tenant_id: str, new: NewMessage, idempotency_key: str) -> Claim | None:
        """The key and what it stands for; None for a message that could never have been taken."""
        key = self._key(tenant_id, idempotency_key)
        try:
            return Claim(tenant_id, key, self._fingerprint(tenant_id, new))
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
            return None

    def _on_timeline(self, checked: Checked) -> Checked:
        if checked.send_at is None and checked.expires_at is None:
            return checked
        stored = self._clock.stored
        return msgspec.structs.replace(
            checked,
            send_at=checked.send_at and stored(checked.send_at),
            expires_at=checked.expires_at and stored(checked.expires_at),
        )

    def _sealed(self, tenant_id: str, message_id: str, headers: dict[str, str]) -> str | None:
        if not headers:
            return None
        return self._sealer.seal(json.dumps(headers).encode(), bound_to=(tenant_id, message_id))

    def _key(self, tenant_id: str, key: str) -> str:
        if not 1 <= len(key) <= _LONGEST_KEY or not key.isprintable():
            raise InvalidInput("idempotency_key", f"must have 1 to {_LONGEST_KEY} printable characters.")
        return self._sealer.contact_hash(f"key:{tenant_id}", key)

    def _fingerprint(self, tenant_id: str, new: NewMessage) -> str:
        return self._sealer.contact_hash(f"message:{tenant_id}", msgspec.json.encode(new, order="sorted").decode())


def _or_raise(answer: Answer | None) -> Queued | None:
    if isinstance(answer, Exception):
        raise answer from None
    return answer
