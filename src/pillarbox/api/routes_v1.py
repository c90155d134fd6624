"""The paths of sessions, messages, events, keys and the inbox, as data."""

from __future__ import annotations

from pillarbox.api import conversations, events, health, hooks, inbound, inbox, keys, sessions
from pillarbox.api.call import Endpoint, Nothing
from pillarbox.api.paging import Page
from pillarbox.api.routes_operators import OPERATORS
from pillarbox.api.routes_outbound import OUTBOUND
from pillarbox.conversations.model import Line
from pillarbox.hooks.model import HookRecord, NewEvent, Stored
from pillarbox.inbound.model import Enqueued, InboundMessage, NewMessage
from pillarbox.inbox import Begun, LeaseAnswer, Sighting
from pillarbox.inbox.announcement import Announcement
from pillarbox.keys import Key, NewKey
from pillarbox.sessions import SessionChange

SESSIONS, SESSION = "/v1/sessions", "/v1/sessions/{session_id}"
INBOUND, MESSAGE = "/v1/inbound", "/v1/inbound/{id}"
HOOKS, HOOK = "/v1/hooks", "/v1/hooks/{id}"
INBOX, INBOX_KEY = "/v1/inbox", "/v1/inbox/{key}"
KEYS = "/v1/keys"

PIPES = (
    Endpoint(
        "POST",
        INBOUND,
        inbound.post_inbound,
        "Hand in a message; 200 when it had been handed in before",
        {202: Enqueued, 200: Enqueued},
        body=NewMessage,
        problems=(404, 409),
    ),
    Endpoint(
        "GET",
        INBOUND,
        inbound.list_inbound,
        "List messages",
        {200: Page[InboundMessage]},
        query=inbound.InboundFilter,
    ),
    Endpoint("GET", MESSAGE, inbound.get_inbound, "Show a message", {200: InboundMessage}, problems=(404,)),
    Endpoint(
        "POST",
        f"{MESSAGE}/retry",
        inbound.retry_inbound,
        "Try a waiting message now",
        {200: InboundMessage},
        body=Nothing,
        problems=(404, 409),
    ),
    Endpoint(
        "POST",
        f"{MESSAGE}/expire",
        inbound.expire_inbound,
        "Give a message up, so that the next of its session can go",
        {200: InboundMessage},
        body=Nothing,
        problems=(404, 409),
    ),
    Endpoint(
        "POST",
        SESSIONS,
        sessions.open_session,
        "Open a session",
        {201: sessions.SessionView},
        body=sessions.NewSession,
        problems=(409,),
    ),
    Endpoint(
        "GET",
        SESSIONS,
        sessions.list_sessions,
        "List sessions",
        {200: Page[sessions.SessionItem]},
        query=sessions.SessionFilter,
    ),
    Endpoint(
        "GET",
        SESSION,
        sessions.get_session,
        "Show a session and its queue",
        {200: sessions.SessionView},
        problems=(404,),
    ),
    Endpoint(
        "GET",
        f"{SESSION}/conversation",
        conversations.list_lines,
        "List what was said in a session: by its agent to all chats, by people to the others, by us to one",
        {200: Page[Line]},
        query=conversations.ConversationFilter,
        problems=(404,),
    ),
    Endpoint(
        "PATCH",
        SESSION,
        sessions.change_session,
        "Change a session",
        {200: sessions.SessionView},
        body=SessionChange,
        problems=(404, 409),
    ),
    Endpoint(
        "POST",
        f"{SESSION}/close",
        sessions.close_session,
        "Close a session: nothing more is delivered to it",
        {200: sessions.Closed},
        body=Nothing,
        problems=(404,),
    ),
    Endpoint(
        "POST",
        HOOKS,
        hooks.post_hook,
        "Store an event of a session's agent",
        {202: Stored},
        body=NewEvent,
        problems=(404,),
    ),
    Endpoint("GET", HOOKS, hooks.list_hooks, "List events", {200: Page[HookRecord]}, query=hooks.HookFilter),
    Endpoint("GET", HOOK, hooks.get_hook, "Show an event", {200: HookRecord}, problems=(404,)),
    Endpoint(
        "POST",
        f"{HOOK}/retry",
        hooks.retry_hook,
        "Try a waiting event now, or a dead one again",
        {200: HookRecord},
        body=Nothing,
        problems=(404, 409),
    ),
    Endpoint(
        "GET",
        "/v1/events",
        events.follow_events,
        "Follow events as they are delivered (Server-Sent Events); `Last-Event-ID` goes on behind an event",
        {200: str},
        query=events.EventFilter,
        headers=(events.LAST_EVENT_ID,),
        media_type=events.MEDIA_TYPE,
    ),
    Endpoint(
        "POST",
        KEYS,
        keys.create_key,
        "Make an API key; this is the only time it is shown",
        {201: NewKey},
        body=keys.KeyRequest,
    ),
    Endpoint("GET", KEYS, keys.list_keys, "List API keys", {200: Page[Key]}, query=keys.KeyFilter),
    Endpoint("DELETE", f"{KEYS}/{{key_id}}", keys.revoke_key, "Revoke an API key", {204: None}, problems=(404,)),
    Endpoint(
        "POST",
        f"{INBOX}/try-begin",
        inbox.try_begin,
        "Take a key of the inbox, or hear why not",
        {200: Begun},
        body=inbox.BeginRequest,
    ),
    Endpoint(
        "POST", f"{INBOX}/extend", inbox.extend, "Hold a key longer", {200: LeaseAnswer}, body=inbox.ExtendRequest
    ),
    Endpoint(
        "POST",
        f"{INBOX}/mark-processed",
        inbox.mark_processed,
        "Remember a key as handled",
        {200: LeaseAnswer},
        body=inbox.MarkRequest,
    ),
    Endpoint(
        "POST",
        f"{INBOX}/release",
        inbox.release,
        "Give a key up, so that another may begin",
        {200: LeaseAnswer},
        body=inbox.ReleaseRequest,
    ),
    Endpoint("GET", INBOX, inbox.announcement, "What this inbox is and where; no secret", {200: Announcement}),
    Endpoint("GET", INBOX_KEY, inbox.look, "What is known of a key", {200: Sighting}, problems=(422,)),
    Endpoint("GET", "/v1/status", health.status, "What waits, pipe by pipe", {200: health.BoxStatus}),
)

V1 = PIPES + OPERATORS + OUTBOUND
"""What programs may ask, and the command line with them."""
