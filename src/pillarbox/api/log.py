"""/v1/messages: the log of all pipes, and actions on all that match"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, Page, cursor_of, page, text_after
from pillarbox.filters import parse_filter
from pillarbox.operators.bulk import Action
from pillarbox.operators.model import Stretch

T = TypeVar("T")

FilterText = Annotated[str, Meta(description="Terms such as `status:failed channel:sms age:>5m`; empty: everything.")]


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of the log to show."""

    filter: FilterText = ""
    limit: Limit = 100
    cursor: Cursor = ""


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action on all that match; a dry run only counts them."""

    action: Action
    filter: FilterText
    dry_run: bool = False


class OperationQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which operations to list."""

    limit: Limit = 100
    cursor: Cursor = ""


async def list_log(call: Call) -> Answer:
    """Every pipe, the newest first, at the same price at any depth."""
    query: LogQuery = call.query
    wanted = parse_filter(query.filter)
    found = await call.box.log.page(wanted, cursor=text_after(query.cursor, "log"), limit=query.limit)
    return ok(paged(found, "log"))


async def act_on_all(call: Call) -> Answer:
    """Count (200), or begin an operation whose progress can be read (202)."""
    request: ActionRequest = call.body
    wanted = parse_filter(request.filter)
    if request.dry_run:
        return ok(await call.box.operations.preview(request.action, wanted))
    return ok(await call.box.operations.start(request.action, wanted), 202)


async def list_operations(call: Call) -> Answer:
    query: OperationQuery = call.query
    found = await call.box.operations.list(limit=query.limit + 1, before=text_after(query.cursor, "operation"))
    return ok(page(found, limit=query.limit, kind="operation", position=lambda operation: operation.operation_id))


async def get_operation(call: Call) -> Answer:
    return ok(await call.box.operations.get(call.path["operation_id"]))


async def stop_operation(call: Call) -> Answer:
    return ok(await call.box.operations.stop(call.path["operation_id"]))


def paged(found: Stretch[T], kind: str) -> Page[T]:
    """A stretch as a page; its cursor is bound to the list it is of."""
    return Page(found.items, None if found.next_cursor is None else cursor_of(kind, found.next_cursor))
