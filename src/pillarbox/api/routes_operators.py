"""The paths that operators use, as data."""

from __future__ import annotations

from pillarbox.api import log, operators
from pillarbox.api.call import Endpoint, Nothing
from pillarbox.api.paging import Page
from pillarbox.audit import OperatorAction
from pillarbox.operators.attention import Attention
from pillarbox.operators.embeds import EmbedLink
from pillarbox.operators.model import Count, LogItem
from pillarbox.operators.operations import Operation
from pillarbox.operators.sandbox import Control
from pillarbox.outbound.model import MessageItem

LOG, OPERATIONS, OPERATION = "/v1/messages", "/v1/operations", "/v1/operations/{operation_id}"
SANDBOX = "/v1/sandbox"
EMBED_LINKS = "/v1/tenants/{tenant}/embed-links"

OPERATORS = (
    Endpoint(
        "GET",
        LOG,
        log.list_log,
        "The log of all pipes, the newest first; a page may be short, or empty, and still have a next one",
        {200: Page[LogItem]},
        query=log.LogQuery,
    ),
    Endpoint(
        "POST",
        f"{LOG}/actions",
        log.act_on_all,
        "Retry, cancel or expire all that match; a dry run counts them (200), else an operation begins (202)",
        {202: Operation, 200: Count},
        body=log.ActionRequest,
    ),
    Endpoint(
        "GET",
        OPERATIONS,
        log.list_operations,
        "List operations on many messages, the newest first",
        {200: Page[Operation]},
        query=log.OperationQuery,
    ),
    Endpoint("GET", OPERATION, log.get_operation, "How far an operation has come", {200: Operation}, problems=(404,)),
    Endpoint(
        "POST",
        f"{OPERATION}/stop",
        log.stop_operation,
        "End an operation where it is; one that has ended stays as it is",
        {200: Operation},
        body=Nothing,
        problems=(404,),
    ),
    Endpoint(
        "GET",
        "/v1/audit",
        operators.list_actions,
        "What operators did, the newest first",
        {200: Page[OperatorAction]},
        query=operators.AuditQuery,
    ),
    Endpoint("GET", "/v1/nodes", operators.list_nodes, "The processes on this database", {200: operators.NodeList}),
    Endpoint(
        "GET",
        "/v1/attention",
        operators.attention,
        "What needs an operator now, each with its age, its reason and what to do",
        {200: Attention},
    ),
    Endpoint("GET", SANDBOX, operators.show_sandbox, "What the sandbox will do next", {200: operators.SandboxView}),
    Endpoint(
        "POST",
        SANDBOX,
        operators.arrange_trouble,
        "Make the sandbox's next sends fail, be throttled, hang or end nobody knows how",
        {201: Control},
        body=operators.NewControl,
    ),
    Endpoint("DELETE", SANDBOX, operators.clear_sandbox, "Let the sandbox behave well again", {204: None}),
    Endpoint(
        "GET",
        f"{SANDBOX}/mailbox",
        operators.show_mailbox,
        "The messages that the sandbox was given, the newest first",
        {200: Page[MessageItem]},
        query=operators.MailboxQuery,
    ),
    Endpoint(
        "POST",
        EMBED_LINKS,
        operators.make_embed_link,
        "Make a short-lived link to a tenant's messages, to be shown inside its own pages",
        {201: EmbedLink},
        body=operators.EmbedRequest,
        problems=(404,),
    ),
    Endpoint(
        "DELETE",
        EMBED_LINKS,
        operators.revoke_embed_links,
        "Make every such link of a tenant worthless",
        {204: None},
        problems=(404,),
    ),
)
