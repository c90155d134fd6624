"""Settings: where they come from, and what is refused with which words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.errors import SettingsError
from pillarbox.settings import Description, Inbound, Settings, describe_settings, load_settings

DURATIONS = [
    # A name of the user's own may be any.
    f"{each.section}.{each.name}".replace("*", "sendgrid")
    for each in describe_settings()
    if each.name.endswith("_seconds") and each.type == "number"
]


def variable(name: str) -> str:
    return "PILLARBOX_" + name.replace(".", "__").upper()


def toml(folder: Path, text: str) -> Path:
    file = folder / "pillarbox.toml"
    file.write_text(text)
    return file


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_a_file_and_variables_the_defaults_hold() -> None:
    assert load_settings(environ={}) == Settings()


def test_the_file_in_the_working_folder_is_read(tmp_path: Path) -> None:
    toml(tmp_path, "[http]\nport = 9000")
    assert load_settings(environ={}).http.port == 9000


def test_variables_override_the_file_and_the_caller_overrides_both(tmp_path: Path) -> None:
    file = toml(tmp_path, '[http]\nport = 9000\nhost = "::1"\n[log]\nlevel = "debug"')
    settings = load_settings(file, {"PILLARBOX_HTTP__PORT": "9001", "PILLARBOX_LOG__LEVEL": "error"}, http={"port": 2})
    assert (settings.http.port, settings.http.host, settings.log.level) == (2, "::1", "error")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("http.port", "9001", 9001),
        ("http.host", "0", "0"),
        ("http.public_url", "https://box.example", "https://box.example"),
        ("http.allowed_hosts", '["a.example"]', ("a.example",)),
        ("metrics.public", "true", True),
        ("metrics.public", "0", False),
        ("inbound.lease_seconds", "2", 2.0),
        ("inbound.backoff_seconds", "[0.01, 1]", (0.01, 1.0)),
        ("inbound.retention_days", "0.5", 0.5),
        ("inbound.deliver_timeout_seconds", "null", None),
        ("inbound.origin_retention_days", '{"telegram": 2}', {"telegram": 2.0}),
        ("inbound.origin_retention_days", "{}", {}),
    ],
)
def test_a_variable_is_read_by_the_type_of_its_setting(name: str, text: str, value: object) -> None:
    section, field = name.split(".")
    assert getattr(getattr(load_settings(environ={variable(name): text}), section), field) == value


def test_tables_merge_name_by_name_and_variables_reach_into_them(tmp_path: Path) -> None:
    file = toml(tmp_path, "[inbound.origin_retention_days]\ntelegram = 2\ndiscord = 3")
    environ = {"PILLARBOX_INBOUND__ORIGIN_RETENTION_DAYS__DISCORD": "4"}
    assert load_settings(file, environ).inbound.origin_retention_days == {"telegram": 2, "discord": 4}


@pytest.mark.parametrize(
    "name",
    [
        "PILLARBOX_DATABASE",
        "PILLARBOX_ADMIN_KEY",
        "PILLARBOX_SESSION",
        "PILLARBOX_MESSAGE_ID",
        "PILLARBOX_SEQ",
        "PILLARBOX_ATTEMPT",
        "PILLARBOX_TOKEN",
        "PILLARBOX_ORIGIN",
        "PILLARBOX_TEST_POSTGRES",
        "PATH",
    ],
)
def test_variables_that_are_no_settings_are_left_alone(name: str) -> None:
    assert load_settings(environ={name: "x"}) == Settings()


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("PILLARBOX_INBOUND__LEASE_SECOND", "did you mean PILLARBOX_INBOUND__LEASE_SECONDS?"),
        ("PILLARBOX_LOG_LEVEL", "did you mean PILLARBOX_LOG__LEVEL?"),
        ("PILLARBOX_HTTP", ""),
        ("PILLARBOX_http__port", ""),
        ("PILLARBOX_HTTP__PORT__X", "did you mean PILLARBOX_HTTP__PORT?"),
        ("PILLARBOX_", ""),
        ("PILLARBOX_DATABASES", "did you mean PILLARBOX_DATABASE?"),
        ("PILLARBOX_PORT", "did you mean PILLARBOX_HTTP__PORT?"),
        ("PILLARBOX_FROB", "; remove it."),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_setting_and_without_its_value(
    name: str, suggestion: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={name: "hunter2"})
    assert str(caught.value).startswith(f"{name} is not a setting")
    assert suggestion in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "suggestion"),
    [
        ("[http]\nports = 1", "http.ports", "did you mean http.port?"),
        ("[htpt]\nport = 1", "htpt.port", "did you mean http.port?"),
        ("[elsewhere]", "elsewhere", ""),
        ("port = 1", "port", ""),
        ("[http.port]\nx = 1", "http.port.x", "did you mean http.port?"),
    ],
)
def test_an_unknown_key_of_the_file_is_named(tmp_path: Path, text: str, name: str, suggestion: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(toml(tmp_path, text), {})
    assert str(caught.value).startswith(f"{name}, given by ")
    assert suggestion in str(caught.value)


def test_an_unknown_setting_of_the_caller_is_named() -> None:
    with pytest.raises(SettingsError, match=r"http\.prot, given by the caller"):
        load_settings(environ={}, http={"prot": 1})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("http = 3", "http"),
        ("[http]\nport = '80'", "http.port"),
        ("[http]\nport = 65536", "http.port"),
        ("[http]\nport = 80.5", "http.port"),
        ("[http]\npublic_url = 'box.example'", "http.public_url"),
        ("[http]\npublic_url = 'https://box.example/'", "http.public_url"),
        ("[http]\nallowed_hosts = 'a'", "http.allowed_hosts"),
        ("[log]\nlevel = 'loud'", "log.level"),
        ("[metrics]\nprefix = 'a-b'", "metrics.prefix"),
        ("[metrics]\npublic = 1", "metrics.public"),
        ("[inbound]\nbackoff_seconds = []", "inbound.backoff_seconds"),
        ("[inbound]\nbackoff_seconds = [1, -1]", "inbound.backoff_seconds[1]"),
        ("[inbound]\nconcurrency = 0", "inbound.concurrency"),
        ("[inbound]\nretention_days = 0", "inbound.retention_days"),
        ("[inbound]\norigin_retention_days = 3", "inbound.origin_retention_days"),
        ("[inbound.origin_retention_days]\nmail = -3", "inbound.origin_retention_days.mail"),
        ("[inbound.origin_retention_days]\ntelegram = 0.9", "inbound.origin_retention_days.telegram"),
        ("[inbound.origin_retention_days]\nwhatsapp = 6", "inbound.origin_retention_days.whatsapp"),
        ("[inbox]\nretention_days = 6.9", "inbox.retention_days"),
        ("[inbox]\nretention_days = 31", "inbox.retention_days"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_its_name(tmp_path: Path, text: str, name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(toml(tmp_path, text), {})
    assert str(caught.value).startswith((f"{name},", f"{name} "))


def test_a_refused_word_is_answered_with_the_words_there_are() -> None:
    with pytest.raises(SettingsError, match=r"PILLARBOX_LOG__FORMAT.*expected one of text, json") as caught:
        load_settings(environ={"PILLARBOX_LOG__FORMAT": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_list_that_is_not_json_is_refused_without_being_quoted() -> None:
    with pytest.raises(SettingsError, match="PILLARBOX_HTTP__ALLOWED_HOSTS must be a JSON list") as caught:
        load_settings(environ={"PILLARBOX_HTTP__ALLOWED_HOSTS": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_variable_that_is_not_utf_8_is_refused_by_its_name() -> None:
    with pytest.raises(SettingsError, match="PILLARBOX_HTTP__HOST is not UTF-8 text"):
        load_settings(environ={"PILLARBOX_HTTP__HOST": "\udcff"})


@pytest.mark.parametrize("content", [b"[http", b"\xff", b"a = 1\na = 2"])
def test_a_file_that_is_not_toml_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"other\.toml is not TOML"):
        load_settings(file, {})


def test_a_file_that_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml cannot be read: No such file"):
        load_settings(tmp_path / "missing.toml", {})


@pytest.mark.parametrize("name", DURATIONS)
def test_every_duration_goes_down_to_a_hundredth_of_a_second(name: str) -> None:
    found: Any = load_settings(environ={variable(name): "0.01"})
    for step in name.split("."):
        found = found[step] if isinstance(found, Mapping) else getattr(found, step)
    assert found == 0.01


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("text", ["0.009", "0", "-1", "nan", "inf", "-inf", "1e999", "soon", ""])
def test_no_duration_is_shorter_endless_or_no_number(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}, given by {variable(name)}, cannot be used: "):
        load_settings(environ={variable(name): text})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.0, 0.0099])
def test_the_file_is_held_to_the_same_bounds(value: float) -> None:
    with pytest.raises(SettingsError, match=r"^inbound\.poll_seconds"):
        load_settings(environ={}, inbound={"poll_seconds": value})


@pytest.mark.parametrize(("timeout", "lease"), [(2, 2), (3, 2), (301, None)])
def test_a_timeout_not_below_its_lease_is_refused_naming_both(timeout: float, lease: float | None) -> None:
    given = {"deliver_timeout_seconds": timeout} | ({} if lease is None else {"lease_seconds": lease})
    with pytest.raises(SettingsError, match=r"inbound\.deliver_timeout_seconds .* inbound\.lease_seconds"):
        load_settings(environ={}, inbound=given)


@given(lease=st.floats(0.01, 10_000))
def test_a_timeout_that_is_not_set_is_at_most_two_thirds_of_its_lease(lease: float) -> None:
    timeout = Inbound(lease_seconds=lease).effective_deliver_timeout_seconds
    assert timeout <= 30
    assert timeout <= lease * 2 / 3 < lease


def test_a_timeout_that_is_set_is_taken_as_it_is() -> None:
    assert Inbound(lease_seconds=60, deliver_timeout_seconds=59).effective_deliver_timeout_seconds == 59


@pytest.mark.parametrize(("origin", "days"), [("terminal", 0.5), ("telegram", 1), ("whatsapp", 7), ("discord", 20)])
def test_an_origin_is_kept_as_long_as_its_platform_may_send_again(origin: str, days: float) -> None:
    inbound = Inbound(retention_days=0.5, origin_retention_days={"discord": 20})
    assert inbound.retention_days_for(origin) == days


def test_every_setting_is_described_and_its_default_can_be_written_down() -> None:
    described = describe_settings()
    assert all(each.doc.endswith(".") and each.type for each in described)
    environ = {
        variable(f"{section}.{name}"): json.loads(default) if default.startswith('"') else default
        for section, name, _, default, _ in described
        if default != "unset" and "*" not in section
    }
    assert load_settings(environ=environ) == Settings()


def test_the_description_reads_like_a_reference() -> None:
    rows = {f"{each.section}.{each.name}": (each.type, each.default) for each in describe_settings()}
    assert rows["log.format"] == ("`text` or `json`", '"text"')
    assert rows["inbound.backoff_seconds"] == ("list of number", "[5,10,20,40,80,160,300]")
    assert rows["inbound.deliver_timeout_seconds"] == ("number", "unset")
    assert rows["inbound.origin_retention_days"] == ("table of number", "{}")


@given(name=st.text(), value=st.text())
def test_whatever_an_unknown_variable_is_called_it_ends_in_a_sentence(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=r"is not a setting; .*[.?]$"):
        load_settings(environ={f"PILLARBOX_X{name}": value})


@given(each=st.sampled_from(describe_settings()), value=st.text())
def test_whatever_a_variable_holds_it_is_taken_or_refused_by_name(each: Description, value: str) -> None:
    name = f"{each.section}.{each.name}"
    refused = ""
    try:
        load_settings(environ={variable(name): value})
    except SettingsError as error:
        refused = str(error)
    assert refused == "" or refused.startswith((name, variable(name)))


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().http.port = 1  # type: ignore[misc]
    assert msgspec.structs.replace(Settings(), inbound=Inbound(concurrency=1)).inbound.concurrency == 1
