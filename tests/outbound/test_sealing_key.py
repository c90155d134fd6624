"""The key that hashed a database's opt-outs stays its key."""

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest

from pillarbox import Email, Pillarbox
from pillarbox.errors import SettingsError, Unavailable
from pillarbox.hooks.model import HookEvent
from pillarbox.settings import Settings, load_settings

OURS, ANOTHER = b64encode(b"a" * 32).decode(), b64encode(b"b" * 32).decode()


def keyed(key: str) -> Settings:
    return load_settings(environ={}, secrets={"key": key})


async def test_another_key_than_the_first_is_refused(database_url: str) -> None:
    async with Pillarbox.open(database_url, settings=keyed(OURS)):
        pass
    with pytest.raises(SettingsError, match=r"secrets\.key"):
        async with Pillarbox.open(database_url, settings=keyed(ANOTHER)):
            pass
    async with Pillarbox.open(database_url, settings=keyed(OURS)) as box:
        await box.tenants.set("acme")
        await box.outbound.opt_out("acme", "ada@example.com")


async def test_a_server_without_a_key_does_all_but_sending_and_says_so(postgres_url: str) -> None:
    async with Pillarbox.open(postgres_url, settings=load_settings(environ={})) as box:
        await box.sessions.open(session_id="s", target={"kind": "none"})
        await box.tenants.set("acme")
        with pytest.raises(Unavailable, match=r"secrets\.key"):
            await box.outbound.opt_out("acme", "ada@example.com")


async def test_the_key_beside_a_file_is_made_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    async with Pillarbox.open(url, settings=load_settings(environ={})):
        key = (tmp_path / "app.db.key").read_bytes()
    async with Pillarbox.open(url, settings=load_settings(environ={})):
        assert (tmp_path / "app.db.key").read_bytes() == key


async def test_a_node_without_the_key_leaves_messages_to_one_that_has_it(postgres_url: str) -> None:
    sandbox = {"providers": {"email": {"provider": "sandbox"}}}
    with_key = load_settings(environ={}, secrets={"key": OURS}, outbound=sandbox)
    heard = asyncio.Event()
    async with Pillarbox.open(postgres_url, settings=with_key) as box:
        await box.tenants.set("acme")
        message_id = await box.outbound.send("acme", Email(to="ada@example.com", subject="Hello", text="Hello."))
        async with Pillarbox.open(postgres_url, settings=load_settings(environ={}, outbound=sandbox)) as keyless:

            @keyless.hooks.on("agent_stop")
            async def hear(event: HookEvent) -> None:
                heard.set()

            running = asyncio.create_task(keyless.run())
            await keyless.sessions.open(session_id="s", target={"kind": "none"})
            await keyless.hooks.post("s", "agent_stop")
            await heard.wait()
            keyless.stop()
            await running
        message = await box.outbound.get(message_id)
        assert (message.status, message.attempt_count) == ("pending", 0)
