import re
from collections.abc import Iterator
from typing import Any

import jsonschema

from pillarbox.api.routes import ENDPOINTS
from tests.api.client import Client


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "$ref":
                yield inner
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


async def test_every_endpoint_is_described(client: Client) -> None:
    document = (await client.with_key(None).get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1.")
    described = {(method, path) for path, method, _ in operations(document)}
    assert described == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}


async def test_the_document_holds_together(client: Client) -> None:
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert {reference.removeprefix("#/components/schemas/") for reference in references(document)} <= schemas.keys()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in schemas)
    identifiers = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(identifiers)) == len(identifiers)
    for path, _, operation in operations(document):
        named = {item["name"] for item in operation.get("parameters", []) if item["in"] == "path"}
        assert named == set(re.findall(r"\{(\w+)\}", path))
        assert operation["responses"]
        assert path.startswith("/v1/") <= (operation["security"] == [{"key": []}])


async def test_answers_are_as_described(client: Client, session: str) -> None:
    document = (await client.get("/openapi.json")).json()
    await client.post("/v1/inbound", {"session_id": session, "origin": "t", "content": "x"})
    await client.post("/v1/hooks", {"session_id": session, "event_type": "tool_use"})
    await client.post("/v1/keys", {"tenant": "acme"})
    for path, real in [
        ("/v1/sessions", "/v1/sessions"),
        ("/v1/sessions/{session_id}", f"/v1/sessions/{session}"),
        ("/v1/inbound", "/v1/inbound"),
        ("/v1/hooks", "/v1/hooks"),
        ("/v1/keys", "/v1/keys"),
        ("/v1/status", "/v1/status"),
        ("/healthz", "/healthz"),
    ]:
        content = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
        whole = content["schema"] | {"components": document["components"]}
        jsonschema.validate((await client.get(real)).json(), whole, jsonschema.Draft202012Validator)


async def test_the_stream_of_events_is_described(client: Client) -> None:
    document = (await client.get("/openapi.json")).json()
    operation = document["paths"]["/v1/events"]["get"]
    assert operation["responses"]["200"]["content"].keys() == {"text/event-stream"}
    assert {"401", "422", "503"} <= operation["responses"].keys()
    named = {(item["in"], item["name"]) for item in operation["parameters"]}
    assert ("header", "Last-Event-ID") in named
    assert {("query", name) for name in ("session_id", "event_type", "last_event_id")} <= named


async def test_the_page_for_people_loads_nothing_from_elsewhere(client: Client) -> None:
    page = await client.with_key(None).get("/docs")
    assert page.status == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    text = page.body.decode()
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(?!/)", text)
    assert all(endpoint.path in text for endpoint in ENDPOINTS)
