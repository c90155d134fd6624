"""The guide's own provider, taken from the page as a reader would."""

import importlib.util
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import ClientSession

from pillarbox.outbound.provider import HttpProvider, Request, Response
from pillarbox.outbound.providers import providers
from tests.docs.pages import ROOT, Block, blocks_of
from tests.outbound.provider_contract import MESSAGE_ID, ProviderContract, Stage
from tests.servers.http_target import answer, serve_http_target

GUIDE = ROOT / "docs" / "guides" / "adding-a-provider.md"


def block(kind: str, text: str) -> Block:
    (found,) = [block for block in blocks_of(GUIDE) if block.kind == kind and text in block.text]
    return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    written = block("python", "class Postbote")
    file = tmp_path_factory.mktemp("guide") / written.detail
    file.write_text(written.text)
    spec = importlib.util.spec_from_file_location("postbote", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Stage(cast(HttpProvider, module.Postbote()), json.loads(block("json", "answers").text))


class TestTheGuidesProvider(ProviderContract):
    pass


async def exchange(request: Request) -> Response:
    async with (
        ClientSession() as session,
        session.request(request.method, request.url, headers=request.headers, data=request.body) as response,
    ):
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status, headers, await response.read())


async def test_it_sends_a_text_to_a_server_and_reads_its_answers(stage: Stage) -> None:
    async with serve_http_target() as server:
        server.then(
            answer(503, json={"reason": "busy"}, headers={"Retry-After": "30"}), answer(201, json={"id": "pb-7"})
        )
        account = replace(stage.account(), base_url=server.url, options={"flash": True})
        ask = stage.provider.request(stage.message(), account)
        first, second = [stage.provider.verdict(await exchange(ask)) for _ in range(2)]
    assert (first.judgement, first.retry_after) == ("transient", 30)
    assert (second.judgement, second.provider_msg_id) == ("accepted", "pb-7")
    came = server.requests[1]
    assert (came.method, came.target) == ("POST", "/v2/texts")
    assert came.headers["Authorization"] == "Bearer canary-of-the-token"
    assert came.headers["Idempotency-Key"] == MESSAGE_ID
    assert came.json == {
        "to": "+15551234567",
        "from": "ACME",
        "text": "Hello",
        "flash": True,
        "reference": MESSAGE_ID,
    }


def test_it_joins_the_others(stage: Stage) -> None:
    assert providers(stage.provider).find("sms", "postbote") is stage.provider


def test_the_entry_point_of_the_guide_leads_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered: dict[str, Any] = tomllib.loads(block("toml", "entry-points").text)["project"]["entry-points"]
    (tmp_path / "acme_postbote.py").write_text(block("python", "class Postbote").text)
    about = tmp_path / "acme_postbote-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-postbote\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "\n".join(f"{n} = {v}" for n, v in entries.items()) for group, entries in offered.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    assert type(providers().find("sms", "postbote")).__module__ == "acme_postbote"


def test_the_tenants_configuration_names_what_it_has(stage: Stage) -> None:
    chosen = json.loads(block("json", "env:").text)["providers"]["sms"]
    assert chosen["provider"] == stage.provider.name
    assert set(chosen["credentials"]) == set(stage.provider.credentials)
    assert set(chosen) - {"provider", "from", "credentials"} <= set(stage.provider.options)
