"""One attempt: from a claimed message to what became of it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import cast

import msgspec

from pillarbox.clock import Clock
from pillarbox.engine import Outcome, Skipped, Untouched, not_begun
from pillarbox.errors import InvalidInput, SecretUnavailable, Unavailable
from pillarbox.outbound.accounts import Accounts
from pillarbox.outbound.attachments import AttachmentReader, AttachmentRefused, AttachmentUnavailable
from pillarbox.outbound.attempt import Accepted, Parcel, Rejected, Report, Transient
from pillarbox.outbound.beginning import START_WITHIN, Beginning, Confirm, NotBegun
from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.destinations import Blocked
from pillarbox.outbound.excerpts import with_exchange, with_own_words
from pillarbox.outbound.model import NewAttachment
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.provider import (
    Account,
    Attachment,
    Begin,
    HttpProvider,
    Outgoing,
    Provider,
    Verdict,
    is_direct,
)
from pillarbox.outbound.routes import Route, Routes
from pillarbox.outbound.verdicts import sound
from pillarbox.secrets.sealing import Sealer
from pillarbox.telemetry.traces import attempt_span, somebody_traces

# Until then a node that can may take the message.
_LEFT_ALONE = timedelta(seconds=5)
_BEHIND_OTHERS = (0.5, 1.5)


class Sender:
    """Sends what was claimed; bounded for each provider, and never later than an opt-out could have been told."""

    def __init__(
        self,
        accounts: Accounts,
        *,
        client: Client,
        confirm: Confirm,
        sealer: Sealer,
        policy: OutboundPolicy,
        clock: Clock,
        random: Random,
    ) -> None:
        self._accounts = accounts
        self._client = client
        self._confirm = confirm
        self._sealer = sealer
        self._policy = policy
        self._clock = clock
        self._random = random
        self._routes = Routes(accounts, policy)

    async def send(self, parcel: Parcel) -> Outcome:
        """Make one attempt; whatever goes wrong is an outcome too."""
        try:
            route = self._routes.of(parcel)
        except InvalidInput as fault:
            return _rejected(None, str(fault))
        if not await self._has_slot(route, parcel):
            # Behind others for a while: claimed again at once, it would keep those of other channels from their places.
            return Skipped("", at=self._clock.now() + timedelta(seconds=self._random.uniform(*_BEHIND_OTHERS)))
        try:
            if not somebody_traces():
                return await self._tried(parcel, route)
            name = route.provider.name
            with attempt_span(parcel.trace, parcel.id, parcel.channel, name, parcel.attempt_count) as span:
                outcome = await self._tried(parcel, route)
                span.ended(type(outcome).__name__)
                return outcome
        finally:
            route.slots.release()

    async def _has_slot(self, route: Route, parcel: Parcel) -> bool:
        """Wait for a slot of the provider, but not so long that the claim would say nothing any more."""
        if not route.slots.locked():
            return await route.slots.acquire()
        try:
            with not_begun():
                async with asyncio.timeout(self._left(parcel)):
                    return await route.slots.acquire()
        except TimeoutError:
            return False

    async def _tried(self, parcel: Parcel, route: Route) -> Outcome:
        begin = Beginning(parcel, self._confirm, self._clock)
        try:
            return await self._attempt(parcel, route, begin)
        except NotBegun:
            return Skipped("", at=self._clock.now())
        except asyncio.CancelledError:
            if begin.begun:
                raise
            raise Untouched from None
        except Exception as error:
            if isinstance(error, Unavailable) and not begin.begun:
                return Skipped("", at=self._clock.now() + _LEFT_ALONE)
            # Named and not quoted: whatever it says may be what was to be sent, to whom, or with which secret.
            verdict = Verdict(judgement="unknown", error=f"The attempt failed with {type(error).__name__}.")
            return self._again(parcel, verdict, route.provider)

    async def _attempt(self, parcel: Parcel, route: Route, begin: Begin) -> Outcome:
        provider = route.provider
        try:
            account = await self._accounts.account(provider, route.config, route.options)
            message = await self._outgoing(parcel, route)
        except (SecretUnavailable, AttachmentUnavailable) as fault:
            return self._again(parcel, Verdict(judgement="transient", error=str(fault)), provider)
        except (AttachmentRefused, Blocked) as fault:
            return _rejected(provider, str(fault))
        return self._outcome(parcel, await self._carry(message, route, account, begin), provider)

    async def _carry(self, message: Outgoing, route: Route, account: Account, begin: Begin) -> Verdict:
        provider, request, response = route.provider, None, None
        try:
            if is_direct(provider):
                verdict = sound(await provider.send(message, account, deadline=route.timeout, begin=begin))
                return with_own_words(verdict, message, account)
            http = cast("HttpProvider", provider)
            request = http.request(message, account)
            # A provider that has no place of its own goes where the message says.
            guarded = not provider.base_url
            response = await self._client.fetch(
                request, deadline=route.timeout, guarded=guarded, trusted=route.trusted, begin=begin
            )
            verdict = sound(http.verdict(replace(response, at=message.at)))
        except Blocked as fault:
            verdict = Verdict(judgement="rejected", error=str(fault))
        except NotSent as fault:
            verdict = Verdict(judgement="transient", error=str(fault))
        except (Unanswered, TimeoutError) as fault:
            verdict = Verdict(judgement="unknown", error=str(fault) or f"No answer within {route.timeout:g} s.")
        except InvalidInput as fault:
            verdict = Verdict(judgement="rejected", error=str(fault))
        return verdict if request is None else with_exchange(verdict, message, account, request, response)

    async def _outgoing(self, parcel: Parcel, route: Route) -> Outgoing:
        options = msgspec.json.decode(parcel.options)
        headers = options.get("headers", {})
        if parcel.sealed is not None:
            headers = json.loads(self._sealer.open(parcel.sealed, bound_to=(parcel.tenant_id, parcel.id)))
        is_webhook = parcel.channel == "webhook"
        return Outgoing(
            message_id=parcel.id,
            tenant_id=parcel.tenant_id,
            channel=parcel.channel,
            to=parcel.to_address,
            attempt=parcel.attempt_count,
            at=self._clock.shown(self._clock.now()),
            created_at=self._clock.shown(parcel.created_at),
            sender=options.get("from") or route.config.get("from"),
            subject=parcel.subject,
            text=None if is_webhook else parcel.body_text,
            html=parcel.body_html,
            body=parcel.body_text.encode() if is_webhook and parcel.body_text is not None else None,
            method=options.get("method", "POST"),
            headers=headers,
            cc=options.get("cc", ()),
            bcc=options.get("bcc", ()),
            reply_to=options.get("reply_to"),
            attachments=await self._attached(parcel.attachments, route) if parcel.attachments else (),
            platform=options.get("platform"),
            data=options.get("data"),
            unsubscribe_url=self._unsubscribe_url(parcel),
        )

    async def _attached(self, files: str, route: Route) -> tuple[Attachment, ...]:
        named = msgspec.json.decode(files, type=tuple[NewAttachment, ...])
        reader = AttachmentReader(self._client, roots=route.attachment_roots)
        return await reader.read(named, deadline=route.timeout, trusted=route.trusted)

    def _unsubscribe_url(self, parcel: Parcel) -> str | None:
        if parcel.channel != "email" or parcel.category != "marketing" or not self._policy.public_url:
            return None
        token = self._sealer.token(("unsubscribe", parcel.tenant_id, parcel.to_address))
        return f"{self._policy.public_url}/u/{token}"

    def _outcome(self, parcel: Parcel, verdict: Verdict, provider: Provider) -> Outcome:
        match verdict.judgement:
            case "accepted":
                return Accepted(report=_report(verdict, provider))
            case "rejected":
                return Rejected(verdict.error or "The provider refused it.", _report(verdict, provider))
            case _:
                return self._again(parcel, verdict, provider)

    def _again(self, parcel: Parcel, verdict: Verdict, provider: Provider) -> Outcome:
        delay = self._policy.of(parcel.channel).delay(parcel.attempt_count, self._random)
        floor = min(verdict.retry_after or 0.0, self._policy.retry_after_most_on(parcel.channel))
        at = self._clock.now() + timedelta(seconds=max(delay, floor))
        return Transient(verdict.error or "The provider did not take it.", at, report=_report(verdict, provider))

    def _left(self, parcel: Parcel) -> float:
        """How long it may wait for its turn."""
        return (parcel.claimed_at + START_WITHIN - self._clock.now()).total_seconds()


def _report(verdict: Verdict, provider: Provider) -> Report:
    return Report(
        verdict.judgement,
        provider.name,
        verdict.status_code,
        verdict.error,
        verdict.provider_msg_id,
        verdict.delivered,
        verdict.opt_out,
        verdict.last_chance,
        verdict.request,
        verdict.response,
    )


def _rejected(provider: Provider | None, error: str) -> Outcome:
    return Rejected(error, Report("rejected", provider.name if provider else None, error=error))
