import logging
from pathlib import Path

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import CHANNELS, Channel
from pillarbox.outbound.providers import providers
from pillarbox.outbound.providers.sandbox import Sandbox

PLUGIN = """
class Pigeon:
    name = "pigeon"
    channels = frozenset({"sms"})
    credentials = optional_credentials = options = ()
    base_url = "https://pigeon.example"

    def request(self, message, account): ...

    def verdict(self, response): ...


class Impostor(Pigeon):
    name = "twilio"


class Mute(Pigeon):
    name = "mute"
    verdict = None


class Lost(Pigeon):
    name = "lost"
    channels = frozenset({"smoke"})


def broken():
    raise RuntimeError("api_key=canary-of-a-secret")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's, as an installer would have left it."""
    (tmp_path / "pigeonpost.py").write_text(PLUGIN)
    about = tmp_path / "pigeonpost-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeonpost\nVersion: 1.0\n")
    offered = ["pigeon = pigeonpost:Pigeon", "impostor = pigeonpost:Impostor", "mute = pigeonpost:Mute"]
    offered += [
        "lost = pigeonpost:Lost",
        "broken = pigeonpost:broken",
        "gone = pigeonpost:NoSuchThing",
        "nowhere = no.such",
    ]
    (about / "entry_points.txt").write_text("\n".join(["[pillarbox.providers]", *offered]))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_sandbox_carries_every_channel(channel: Channel) -> None:
    assert providers().find(channel, "sandbox").name == "sandbox"


@pytest.mark.parametrize(("channel", "name"), [("email", "sendgrid"), ("sms", "twilio"), ("webhook", "webhook")])
def test_ours_are_found_by_channel_and_name(channel: Channel, name: str) -> None:
    assert providers().find(channel, name).name == name


@pytest.mark.parametrize("name", ["pigeon", "sendgrid", "Twilio", "", "x\ny"])
def test_a_name_that_does_not_carry_the_channel_is_refused_by_its_field(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        providers().find("sms", name)
    assert (refused.value.field, refused.value.detail) == ("providers.sms.provider", "must be one of sandbox, twilio.")


def test_names_are_theirs_alone() -> None:
    found = providers()
    assert all(name == provider.name for name, provider in found.items())
    with pytest.raises(ValueError, match="sandbox"):
        providers(Sandbox())


def test_each_set_has_a_sandbox_of_its_own() -> None:
    assert providers()["sandbox"] is not providers()["sandbox"]


@pytest.mark.usefixtures("installed")
def test_an_installed_package_can_bring_a_provider() -> None:
    found = providers()
    assert found.find("sms", "pigeon").base_url == "https://pigeon.example"
    assert found.find("sms", "pigeon") is found["pigeon"]
    assert type(found.find("sms", "twilio")).__module__ == "pillarbox.outbound.providers.twilio"
    with pytest.raises(InvalidInput, match=r"pigeon, sandbox, twilio\."):
        found.find("sms", "mute")


@pytest.mark.usefixtures("installed")
def test_a_package_that_cannot_be_used_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="pillarbox"):
        names = set(providers())
    assert names == {"sendgrid", "twilio", "webhook", "discord", "slack", "telegram", "whatsapp", "sandbox", "pigeon"}
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 6
    for entry in ("impostor", "mute", "lost", "broken", "gone", "nowhere"):
        assert any(f"entry_point={entry} " in line for line in said), entry
    assert not any("canary" in line for line in said)


@pytest.mark.usefixtures("installed")
def test_nothing_of_other_packages_is_loaded_while_ours_do(caplog: pytest.LogCaptureFixture) -> None:
    found = providers()
    found.find("sms", "twilio")
    found.find("email", "sendgrid")
    assert caplog.records == []
