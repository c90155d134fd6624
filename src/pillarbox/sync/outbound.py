"""The outbound pipe, without awaiting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.outbound.messages import Message
from pillarbox.outbound.model import MessageItem, NewMessage, OptOut, OutboundMessage, OutboundStatus
from pillarbox.outbound.pipe import Outbound as AsyncOutbound
from pillarbox.outbound.reading import Filter
from pillarbox.sync.thread import BoxThread


class Outbound:
    """Takes messages in, sends them for their tenants, and lets operators look and act."""

    def __init__(self, thread: BoxThread, pipe: AsyncOutbound) -> None:
        self._thread = thread
        self._pipe = pipe

    def send(
        self,
        tenant_id: str,
        message: Message | NewMessage,
        *,
        idempotency_key: str | None = None,
        connection: Any = None,
    ) -> str:
        """Queue one message and answer its id; when this returns it is on disk.

        With a `connection` of your own, a psycopg or apsw one, the message is part of your transaction and exists exactly if
        that commits. The connection is used on your own thread.
        """
        if connection is None:
            return self._thread.call(self._pipe.send, tenant_id, message, idempotency_key=idempotency_key)
        if not isinstance(message, Message | NewMessage):
            raise InvalidInput("message", "must be an Email, Sms, Push or Webhook.")
        new = message if isinstance(message, NewMessage) else message.new_message()
        tenant = self._thread.call(self._pipe.tenants.recall, tenant_id)
        return self._pipe.put_on(connection, tenant, new, idempotency_key=idempotency_key).message_id

    def get(self, message_id: str, *, tenant_id: str = "") -> OutboundMessage:
        """The one of that id; raises `NotFound` where there is none."""
        return self._thread.call(self._pipe.get, message_id, tenant_id=tenant_id)

    def list(
        self, wanted: Filter | None = None, *, limit: int = 100, before: str = "", **fields: Any
    ) -> list[MessageItem]:
        """Messages, the newest first, from the one before `before`; the fields of a filter can be given by name."""
        return self._thread.call(self._pipe.list, wanted, limit=limit, before=before, **fields)

    def status(self) -> OutboundStatus:
        """What waits in all, and how old the oldest is."""
        return self._thread.call(self._pipe.status)

    def cancel(self, message_id: str, *, tenant_id: str = "") -> OutboundMessage:
        """End a message while no attempt of it is running."""
        return self._thread.call(self._pipe.cancel, message_id, tenant_id=tenant_id)

    def retry(self, message_id: str, *, tenant_id: str = "") -> OutboundMessage:
        """Queue a message that failed, expired or was canceled again, at once."""
        return self._thread.call(self._pipe.retry, message_id, tenant_id=tenant_id)

    def opt_out(
        self, tenant_id: str, contact: str, channel: str = "all", *, reason: str | None = None
    ) -> tuple[OptOut, bool]:
        """Never write to a contact again; answers the opt-out, and whether it is new.

        When this returns no send to that contact begins any more: those that had been claimed have begun, or never will.
        """
        return self._thread.call(self._pipe.opt_out, tenant_id, contact, channel, reason=reason)

    def opt_outs(self, tenant_id: str, *, limit: int = 100, after: str = "") -> Sequence[OptOut]:
        """The tenant's opt-outs, from the one after `after`."""
        return self._thread.call(self._pipe.opt_outs, tenant_id, limit=limit, after=after)

    def remove_opt_out(self, tenant_id: str, opt_out_id: str) -> None:
        """Let a contact be written to again."""
        self._thread.call(self._pipe.remove_opt_out, tenant_id, opt_out_id)

    def unsubscribe(self, token: str) -> bool:
        """Opt out whoever an unsubscribe link was sent to; False for a token that is not ours."""
        return self._thread.call(self._pipe.unsubscribe, token)

    def forget(self, tenant_id: str, contact: str) -> int:
        """Take a person's contact and what they were sent out of everything that is kept; answers of how many messages."""
        return self._thread.call_patiently(self._pipe.forget, tenant_id, contact)

    def contact_hash(self, tenant_id: str, channel: str, to: str) -> str:
        """How a recipient is kept, to find its messages."""
        return self._pipe.contact_hash(tenant_id, channel, to)
