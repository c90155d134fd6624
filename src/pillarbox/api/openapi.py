"""The description of the API, made from the same table as its routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any

import msgspec

import pillarbox
from pillarbox.api.answers import Answer
from pillarbox.api.call import Call, Endpoint
from pillarbox.api.pages import html_answer, table
from pillarbox.api.problems import ProblemDetails

_REF = "#/components/schemas/{name}"
_HTML = "text/html"
_ALWAYS = (401, 404, 503)
_WITH_BODY = (400, 408, 413, 422)


async def document(call: Call) -> Answer:
    return Answer(200, call.api.description)


async def page(call: Call) -> Answer:
    rows = [
        [
            f"<code>{endpoint.method}</code>",
            f"<code>{escape(endpoint.path)}</code>",
            escape(endpoint.summary),
            _fields(endpoint),
            ", ".join(map(str, sorted({*endpoint.answers, *problems_of(endpoint)}))),
        ]
        for endpoint in call.api.endpoints
    ]
    intro = (
        "<p>Under <code>/v1</code> send <code>Authorization: Bearer KEY</code>. Errors are "
        "<code>application/problem+json</code>. The whole description is at "
        '<a href="/openapi.json">/openapi.json</a>.</p>'
    )
    columns = ["method", "path", "what it does", "body or query", "answers"]
    back = '<a href="/">Dashboard</a>'
    return html_answer("Pillarbox API", intro + table(columns, rows, empty=""), top=back)


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these endpoints."""
    schemas, components = _schemas(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pillarbox",
            "version": pillarbox.__version__,
            "description": "Durable two-way messaging.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key."}},
        },
    }


def _schemas(endpoints: Sequence[Endpoint]) -> tuple[Mapping[Any, dict[str, Any]], dict[str, Any]]:
    kinds: dict[Any, None] = {ProblemDetails: None}
    for endpoint in endpoints:
        given = (endpoint.body, endpoint.query, *endpoint.answers.values())
        kinds.update((kind, None) for kind in given if kind is not None)
    found, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    return dict(zip(kinds, found, strict=True)), components


def _operation(endpoint: Endpoint, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.act.__module__.rpartition('.')[2]}_{getattr(endpoint.act, '__name__', '')}",
        "summary": endpoint.summary,
        "tags": [_tag(endpoint)],
        "responses": _responses(endpoint, schemas),
        "security": [{"key": []}] if endpoint.needs_key else [],
    }
    if named := _parameters(endpoint):
        operation["parameters"] = named
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": bool(msgspec.structs.fields(endpoint.body)),
            "content": {"application/json": {"schema": schemas[endpoint.body]}},
        }
    return operation


def _responses(endpoint: Endpoint, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in endpoint.answers.items():
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
        if kind is not None:
            responses[str(status)]["content"] = {endpoint.media_type: {"schema": schemas[kind]}}
    for status in problems_of(endpoint):
        content: dict[str, Any] = {"application/problem+json": {"schema": schemas[ProblemDetails]}}
        if endpoint.media_type == _HTML:
            content[_HTML] = {"schema": {"type": "string"}}
        responses.setdefault(str(status), {"description": HTTPStatus(status).phrase, "content": content})
    return responses


def problems_of(endpoint: Endpoint) -> list[int]:
    """The statuses of the problems that an endpoint may answer with."""
    statuses = set(endpoint.problems)
    if endpoint.needs_key:
        statuses.update(_ALWAYS)
    if endpoint.body is not None:
        statuses.update(_WITH_BODY)
    if endpoint.query is not None:
        statuses.add(422)
    return sorted(statuses)


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if name == "id" else "string"}}
        for name in endpoint.names
    ]
    found += ({"name": name, "in": "header", "schema": {"type": "string"}} for name in endpoint.headers)
    if endpoint.query is not None:
        ((schema,), components) = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
        properties = components[schema["$ref"].rpartition("/")[2]]["properties"]
        found += ({"name": name, "in": "query", "schema": kind} for name, kind in properties.items())
    return found


def _fields(endpoint: Endpoint) -> str:
    kind = endpoint.body or endpoint.query
    if kind is None:
        return ""
    named = (f"{field.encode_name}{'' if field.required else '?'}" for field in msgspec.structs.fields(kind))
    return f"<code>{escape(', '.join(named))}</code>"


def _tag(endpoint: Endpoint) -> str:
    return endpoint.path.split("/")[2] if endpoint.path.startswith("/v1/") else "operations"
