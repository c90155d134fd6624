"""Email by any SMTP server (RFC 5321): whoever takes the final dot has the message."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pillarbox.errors import InvalidInput
from pillarbox.outbound.destinations import Blocked, check_host, is_trusted, smtp_origin
from pillarbox.outbound.mail_connections import Line, MailConnections, NotReady, Route, Tls
from pillarbox.outbound.mail_replies import queue_id, refusal
from pillarbox.outbound.mime import Mail, build_mail
from pillarbox.outbound.model import Channel
from pillarbox.outbound.names import Lookup, look_up
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.posting import error_kind

if TYPE_CHECKING:
    from aiosmtplib import SMTP, SMTPResponse

_PORTS: dict[Tls, int] = {"starttls": 587, "implicit": 465, "none": 25}
# Putting together more than this would hold up everyone else.
_LARGE = 256 * 1024
_GOING_AWAY = 421
_GO_AHEAD = 354
_DOT = re.compile(rb"^\.", re.MULTILINE)


@dataclass(slots=True)
class _Flight:
    """How far a message has come."""

    begin: Begin
    dotted: bool = False
    """From here on the server may have it."""


class Smtp:
    """Hands mail to the tenant's own server, which knows no idempotency key: the Message-ID is the same at every attempt.

    The recipient in `to` decides: refused, nothing is sent to anyone. A copy (cc, bcc) that is refused does not keep the message
    from the others, since trying again would reach those twice; the verdict is `accepted` and tells how many were refused.
    """

    name = "smtp"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ("username", "password")
    options: tuple[str, ...] = ("host", "port", "tls")
    base_url = ""

    def __init__(self, *, ca_file: str | None = None, lookup: Lookup = look_up, idle_seconds: float = 30.0) -> None:
        self._connections = MailConnections(ca_file=ca_file, lookup=lookup, idle_seconds=idle_seconds)

    def check_options(self, field: str, config: Mapping[str, Any], trusted: frozenset[str]) -> None:
        """Refuse a tenant's entry that no mail could be sent with."""
        _route(config, config.get("credentials", {}), trusted, prefix=f"{field}.")

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        """Send once; the deadline, in seconds, covers connecting, signing in and the whole transaction.

        The option `trusted` holds the origins that the operator trusts; no tenant sets it.
        """
        flight, asked = _Flight(begin), None
        try:
            async with asyncio.timeout(deadline):
                trusted = frozenset(account.options.get("trusted", ()))
                route = _route(account.options, account.secrets, trusted)
                mail = await _built(message)
                asked = _asked(route, mail)
                verdict = await self._deliver(route, mail, flight)
        except Blocked as blocked:
            verdict = Verdict(judgement="rejected", error=str(blocked))
        except NotReady as trouble:
            verdict = Verdict(judgement="transient", error=str(trouble))
        except TimeoutError:
            verdict = _broken(flight, f"The mail server did not answer within {deadline:g} s")
        return verdict if verdict.judgement == "accepted" else replace(verdict, request=asked)

    async def close(self) -> None:
        """Close every idle connection."""
        await self._connections.close()

    async def _deliver(self, route: Route, mail: Mail, flight: _Flight) -> Verdict:
        from aiosmtplib import SMTPException, SMTPResponseException

        try:
            async with self._connections.place(route):
                line = await self._connections.take(route)
                was_kept = line.kept
                try:
                    return await self._use(route, line, mail, flight)
                except (SMTPException, OSError) as error:
                    if not was_kept or flight.dotted or not _is_stale(error):
                        raise
                return await self._use(route, await self._connections.open(route), mail, flight)
        except SMTPResponseException as refused:
            verdict = refusal(refused.code, refused.message, otherwise="unknown" if flight.dotted else "transient")
            return replace(verdict, response=f"{refused.code} {refused.message}")
        except ssl.SSLCertVerificationError:
            return _broken(flight, "The mail server's TLS certificate was not accepted")
        except ssl.SSLError:
            return _broken(flight, "TLS could not be agreed upon with the mail server")
        except (SMTPException, OSError) as error:
            return _broken(flight, f"The connection to the mail server broke{error_kind(error)}")

    async def _use(self, route: Route, line: Line, mail: Mail, flight: _Flight) -> Verdict:
        """One transaction over one connection, which is kept unless it broke or its state is in doubt."""
        from aiosmtplib import SMTPResponseException

        line.clean = False
        try:
            verdict = await _transact(line.client, mail, flight)
        except SMTPResponseException as refused:
            if 400 <= refused.code < 600 and refused.code != _GOING_AWAY:
                self._connections.keep(route, line)
            else:
                line.cut()
            raise
        except BaseException:
            line.cut()
            raise
        line.clean = True
        self._connections.keep(route, line)
        return verdict


def _route(options: Mapping[str, Any], secrets: Mapping[str, str], trusted: frozenset[str], prefix: str = "") -> Route:
    """Where an account's mail goes and how, or `InvalidInput` for an account that must not be used like that."""
    tls = options.get("tls", "starttls")
    if not isinstance(tls, str) or tls not in _PORTS:
        raise InvalidInput(f"{prefix}tls", "must be starttls, implicit or none.")
    host, port = options.get("host"), options.get("port", _PORTS[tls])
    if not isinstance(host, str) or not host:
        raise InvalidInput(f"{prefix}host", "is needed: the name of the mail server.")
    if not isinstance(port, int) or isinstance(port, bool):
        raise InvalidInput(f"{prefix}port", "must be a number from 1 to 65535.")
    check_host(f"{prefix}host", host, port, trusted=trusted)
    trust = is_trusted(smtp_origin(host, port), trusted)
    username, password = secrets.get("username"), secrets.get("password")
    if (username is None) != (password is None):
        raise InvalidInput(f"{prefix}credentials", "must have both username and password, or neither.")
    if tls == "none" and username is not None:
        raise InvalidInput(f"{prefix}tls", "must not be none where there are credentials.")
    if tls == "none" and not trust:
        raise InvalidInput(f"{prefix}tls", "may be none for a trusted destination alone.")
    return Route(host, port, tls, trust, username, password)


def _asked(route: Route, mail: Mail) -> str:
    to = "1 recipient" if len(mail.recipients) == 1 else f"{len(mail.recipients)} recipients"
    return f"SMTP {route.host}:{route.port}, {to}, {len(mail.content)} bytes"


async def _built(message: Outgoing) -> Mail:
    size = sum(len(file.content) for file in message.attachments) + len(message.text or "") + len(message.html or "")
    return build_mail(message) if size <= _LARGE else await asyncio.to_thread(build_mail, message)


async def _transact(client: SMTP, mail: Mail, flight: _Flight) -> Verdict:
    from aiosmtplib import SMTPDataError, SMTPRecipientRefused

    options = [f"SIZE={len(mail.content)}"] if client.supports_extension("size") else []
    if mail.needs_utf8:
        if not client.supports_extension("smtputf8"):
            error = "The mail server does not offer SMTPUTF8, which an address of this message needs."
            return Verdict(judgement="rejected", error=error)
        options.append("SMTPUTF8")
    encoding = "utf-8" if mail.needs_utf8 else "ascii"
    await flight.begin()
    await client.mail(mail.sender, options=options, encoding=encoding)
    refused = 0
    for at, recipient in enumerate(mail.recipients):
        try:
            await client.rcpt(recipient, encoding=encoding)
        except SMTPRecipientRefused:
            if at == 0:
                raise
            refused += 1
    start = await client.execute_command(b"DATA")
    if start.code != _GO_AHEAD:
        raise SMTPDataError(start.code, start.message)
    reply = await _hand_over(client, mail.content, flight)
    if not 200 <= reply.code < 300:
        raise SMTPDataError(reply.code, reply.message)
    note = (
        f"{refused} of {len(mail.recipients)} recipients were refused; the message went to the others."
        if refused
        else None
    )
    return Verdict(
        judgement="accepted",
        status_code=reply.code,
        provider_msg_id=queue_id(reply.message) or mail.message_id,
        error=note,
    )


async def _hand_over(client: SMTP, content: bytes, flight: _Flight) -> SMTPResponse:
    """Write the content and its dot.

    Not by the library's own `data`, which does not tell whether it failed before the dot or after it.
    """
    from aiosmtplib import SMTPServerDisconnected

    protocol, transport = client.protocol, cast(asyncio.WriteTransport, client.transport)
    if protocol is None:
        raise SMTPServerDisconnected("gone")
    protocol.write(_DOT.sub(b"..", content) + b".\r\n")
    flight.dotted = True
    try:
        return await protocol.read_response()
    finally:
        if transport.get_write_buffer_size():
            # The dot is still here, and goes with the connection.
            flight.dotted = False
            transport.abort()


def _is_stale(error: Exception) -> bool:
    """Whether a kept connection failed as one does that the server was done with."""
    from aiosmtplib import SMTPResponseException

    return not isinstance(error, SMTPResponseException) or error.code == _GOING_AWAY


def _broken(flight: _Flight, what: str) -> Verdict:
    if flight.dotted:
        return Verdict(judgement="unknown", error=f"{what} after the message was handed over.")
    return Verdict(judgement="transient", error=f"{what}; nothing was sent.")
