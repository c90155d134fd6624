"""The key that hashed a database's opt-outs stays its key."""

from base64 import b64encode
from pathlib import Path

import pytest

from pillarbox import Pillarbox
from pillarbox.errors import SettingsError, Unavailable
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
