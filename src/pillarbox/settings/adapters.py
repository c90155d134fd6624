"""`[adapters]`: the chat platforms that messages come from, and which session a chat belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from pillarbox.errors import SettingsError
from pillarbox.settings.shapes import Name, Seconds, Section

_BASE_URL = re.compile(r"https?://[\x21-\x7e]+(?<!/)")
_TELEGRAM_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_SIGNING_SECRET = re.compile(r"whsec_[A-Za-z0-9+/]{2,}={0,2}")
_WEBHOOK_NAME = re.compile(r"[\x21-\x7e]{1,64}")

_DISCORD_TOKEN = re.compile(r"[A-Za-z0-9_-]{6,}(\.[A-Za-z0-9_-]+){1,2}")

Snowflake = Annotated[str, Meta(pattern=r"^[0-9]{1,19}$")]
Origin = Annotated[str, Meta(pattern=r"^[\x21-\x7e]{1,64}$")]
SessionId = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]{1,200}$")]


def _check_base_url(section: str, url: str) -> None:
    if not _BASE_URL.fullmatch(url):
        raise SettingsError(f"{section}.base_url must begin with http:// or https:// and not end with a slash.")


class WhatsApp(Section, frozen=True, kw_only=True):
    """WhatsApp's Cloud API, at `/adapters/whatsapp`."""

    app_secret: Annotated[
        Name | None, Meta(description="What Meta signs requests with; unset: every request is refused.")
    ] = None
    verify_token: Annotated[
        Name | None, Meta(description="What Meta's verification challenge must name; unset: it is refused.")
    ] = None
    access_token: Annotated[Name | None, Meta(description="What opens the Cloud API, for media and replies.")] = None
    phone_number_id: Annotated[
        Annotated[str, Meta(pattern="^[0-9]{1,30}$")] | None,
        Meta(description="The number to reply from; unset: the one that was written to."),
    ] = None
    base_url: Annotated[str, Meta(description="Where the Graph API is.")] = "https://graph.facebook.com"

    def __post_init__(self) -> None:
        _check_base_url("adapters.whatsapp", self.base_url)


class Telegram(Section, frozen=True, kw_only=True):
    """A Telegram bot: a webhook at `/adapters/telegram`, or long polling."""

    bot_token: Annotated[Name | None, Meta(description="The bot's token.")] = None
    secret_token: Annotated[
        Name | None, Meta(description="The webhook's `secret_token`; unset: every request to it is refused.")
    ] = None
    base_url: Annotated[str, Meta(description="Where the Bot API is.")] = "https://api.telegram.org"
    poll: Annotated[
        bool | None,
        Meta(description="Whether workers ask Telegram for messages; unset: with a bot_token and no secret_token."),
    ] = None
    poll_seconds: Annotated[
        Seconds, Meta(description="How long Telegram may hold a question that it has no answer to yet.")
    ] = 30.0
    backoff_seconds: Annotated[
        tuple[Seconds, ...],
        Meta(min_length=1, description="Waits after questions that failed; the last one repeats."),
    ] = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

    def __post_init__(self) -> None:
        _check_base_url("adapters.telegram", self.base_url)
        if self.secret_token is not None and not _TELEGRAM_SECRET.fullmatch(self.secret_token):
            raise SettingsError("adapters.telegram.secret_token must be 1 to 256 of A-Z, a-z, 0-9, _ and -.")
        if self.poll and self.bot_token is None:
            raise SettingsError("adapters.telegram.poll needs adapters.telegram.bot_token.")

    @property
    def polls(self) -> bool:
        """Tell whether workers ask Telegram for messages."""
        return self.poll if self.poll is not None else self.bot_token is not None and self.secret_token is None


class Discord(Section, frozen=True, kw_only=True):
    """A Discord bot, listened to over the gateway; needs the extra `discord`."""

    bot_token: Annotated[
        Name | None, Meta(description="The bot's token; with it workers listen to what the bot can see.")
    ] = None
    base_url: Annotated[str, Meta(description="Where Discord's REST API is.")] = "https://discord.com/api/v10"
    listen: Annotated[
        bool, Meta(description="Whether workers connect to the gateway; off: the token serves for replies alone.")
    ] = True
    guilds: Annotated[
        tuple[Snowflake, ...], Meta(max_length=1000, description="Ids of the servers to listen to; none: all.")
    ] = ()
    channels: Annotated[
        tuple[Snowflake, ...],
        Meta(max_length=1000, description="Ids of the channels to listen to, with their threads; none: all."),
    ] = ()
    direct_messages: Annotated[bool, Meta(description="Whether people may write to the bot itself.")] = True
    threads: Annotated[
        Literal["own", "parent"],
        Meta(description="Whether a thread has a session of its own, or belongs to that of its channel."),
    ] = "own"
    backoff_seconds: Annotated[
        tuple[Seconds, ...],
        Meta(min_length=1, description="Waits after connections that failed; the last one repeats."),
    ] = (1.0, 5.0, 15.0, 60.0, 120.0, 300.0)

    def __post_init__(self) -> None:
        _check_base_url("adapters.discord", self.base_url)
        if self.bot_token is not None and not _DISCORD_TOKEN.fullmatch(self.bot_token):
            raise SettingsError("adapters.discord.bot_token is not a bot's token; copy it without `Bot` or blanks.")


class Slack(Section, frozen=True, kw_only=True):
    """A Slack app's events, at `/adapters/slack`."""

    signing_secret: Annotated[
        Name | None, Meta(description="What Slack signs requests with; unset: every request is refused.")
    ] = None
    bot_token: Annotated[Name | None, Meta(description="What opens the Web API, for files and replies.")] = None
    base_url: Annotated[str, Meta(description="Where the Web API is.")] = "https://slack.com"
    listen_to: Annotated[
        Literal["messages", "mentions"],
        Meta(description="Every message the app can see, or in channels only those that mention it."),
    ] = "messages"

    def __post_init__(self) -> None:
        _check_base_url("adapters.slack", self.base_url)


class WebhookSource(Section, frozen=True, kw_only=True):
    """Any program that posts JSON to `/adapters/webhook/NAME`; a path is dotted, as in `data.items.0.text`."""

    secret: Annotated[Name | None, Meta(description="What proves the sender; unset: every request is refused.")] = None
    proof: Annotated[
        Literal["standard", "hmac", "token"] | None,
        Meta(
            description="Standard Webhooks (unset too), an HMAC-SHA256 of the body in a header, or the secret in one."
        ),
    ] = None
    header: Annotated[
        Name | None,
        Meta(description="That header; unset: `X-Hub-Signature-256` for hmac, `Authorization` for token."),
    ] = None
    origin: Annotated[Origin | None, Meta(description="The origin of its messages; unset: its name.")] = None
    session: Annotated[SessionId | None, Meta(description="The session of all its messages.")] = None
    session_path: Annotated[Name | None, Meta(description="Where the body names the session.")] = None
    channel_path: Annotated[
        Name | None, Meta(description="Where the body names the conversation; unset: its name, for all.")
    ] = None
    content_path: Annotated[Name | None, Meta(description="Where the text is; unset: the whole body, as JSON.")] = None
    id_path: Annotated[Name | None, Meta(description="Where the message's own id is; it is stored once.")] = None
    id_header: Annotated[
        Name | None, Meta(description="The header with that id instead; `webhook-id` with Standard Webhooks.")
    ] = None
    actor_id_path: Annotated[Name | None, Meta(description="Where the sender's id is.")] = None
    actor_name_path: Annotated[Name | None, Meta(description="Where the sender's name is.")] = None

    def __post_init__(self) -> None:
        for one, other in (("session", "session_path"), ("id_path", "id_header")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise SettingsError(f"adapters.webhooks.* must have {one} or {other}, not both.")
        if self.way_to_prove == "standard" and self.secret is not None and not _SIGNING_SECRET.fullmatch(self.secret):
            raise SettingsError("adapters.webhooks.*.secret must be whsec_ followed by base64, or set another proof.")

    @property
    def way_to_prove(self) -> Literal["standard", "hmac", "token"]:
        """Tell how the sender proves itself, by Standard Webhooks unless another way is set."""
        return self.proof or "standard"


class Adapters(Section, frozen=True, kw_only=True):
    """Messages from chat platforms, and the sessions they go to."""

    default_session: Annotated[
        SessionId | None,
        Meta(
            description="The session of chats that no session has among its channels; whoever finds your bot can write to it."
        ),
    ] = None
    default_session_tells: Annotated[
        Literal["answers", "everything", "nothing"],
        Meta(
            description="What such a chat is told: what the agent answers to it, all that anybody says in the session,"
            " or nothing."
        ),
    ] = "answers"
    on_unknown: Annotated[
        Literal["create", "ignore"],
        Meta(
            description="What becomes of a chat that belongs to no session, while there is no default one: it gets a new one,"
            " or is not heard."
        ),
    ] = "create"
    default_target: Annotated[
        Mapping[str, Any],
        Meta(description="The target of such a new session; unset: none, so that messages wait for one."),
    ] = field(default_factory=dict)
    typing: Annotated[bool, Meta(description="Whether chats show that somebody is writing while somebody is.")] = True
    typing_seconds: Annotated[
        Seconds, Meta(description="How long a chat may show it after a delivery, if nobody says that the turn is over.")
    ] = 300.0
    whatsapp: WhatsApp = WhatsApp()
    telegram: Telegram = Telegram()
    discord: Discord = Discord()
    slack: Slack = Slack()
    webhooks: Annotated[
        Mapping[str, WebhookSource],
        Meta(description="One table for each program that posts, as in `[adapters.webhooks.shop]`."),
    ] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.webhooks:
            if not _WEBHOOK_NAME.fullmatch(name):
                raise SettingsError("adapters.webhooks: a name must be 1 to 64 ASCII characters without blanks.")
