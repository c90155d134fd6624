import os
from pathlib import Path

import pytest

from pillarbox.errors import InvalidInput, SecretUnavailable
from pillarbox.secrets import check_reference, read_reference

CANARY = "SG.canary-5f2d8c"
REFUSAL = "must say where the secret is, env:NAME or file:/absolute/path, and not be the secret."


@pytest.mark.parametrize("reference", ["env:ACME_SENDGRID_KEY", "env:_x1", "file:/run/secrets/key", "file:/a b/ü"])
def test_a_reference_is_taken_as_it_is(reference: str) -> None:
    assert check_reference("credentials.api_key", reference) == reference


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        "",
        "env:",
        "env:1A",
        "env:A B",
        "env:A\n",
        "ENV:A",
        "env:" + "A" * 300,
        "file:relative/path",
        "file:",
        "file:/",
        "file:/a\0b",
        "file:/a\nb",
        "file:///a\u2028b",
        "vault:path",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "https://example.com/secret",
    ],
)
def test_anything_else_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_reference("credentials.api_key", text)
    assert caught.value.field == "credentials.api_key"
    assert caught.value.detail == REFUSAL


def test_vault_is_known_and_not_there_yet() -> None:
    with pytest.raises(InvalidInput, match="Vault is not available yet"):
        check_reference("credentials.api_key", "vault:secret/acme#sendgrid")


def test_a_variable_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", CANARY)
    assert read_reference("env:ACME_KEY") == CANARY
    monkeypatch.setenv("ACME_KEY", "another")
    assert read_reference("env:ACME_KEY") == "another"


@pytest.mark.parametrize("content", [CANARY, f"{CANARY}\n", f"{CANARY}\r\n"])
def test_a_file_is_read_without_the_end_of_its_last_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content.encode())
    assert read_reference(f"file:{file}") == CANARY


def test_a_secret_keeps_its_inner_lines(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("-----BEGIN-----\nabc\n-----END-----\n")
    assert read_reference(f"file:{file}") == "-----BEGIN-----\nabc\n-----END-----"


def test_a_secret_behind_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "key").write_text(CANARY)
    (tmp_path / "key").symlink_to("..data/key")
    assert read_reference(f"file:{tmp_path / 'key'}") == CANARY


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b" \n", "empty"),
        (b"canary-\xff\xfe", "not text"),
        (b"canary-\0", "not text"),
        (b"canary-" * 20_000, "larger than 64 KiB"),
    ],
)
def test_a_file_without_a_usable_secret_is_named_and_not_quoted(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(SecretUnavailable, match=said) as caught:
        read_reference(f"file:{file}")
    assert f"file:{file}" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"x" * 65_536)
    assert len(read_reference(f"file:{file}")) == 65_536


def test_what_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOBODY_SET_THIS", raising=False)
    with pytest.raises(SecretUnavailable, match="env:NOBODY_SET_THIS"):
        read_reference("env:NOBODY_SET_THIS")
    with pytest.raises(SecretUnavailable, match=r"file:/.*missing.*No such file"):
        read_reference(f"file:{tmp_path}/missing")


def test_an_empty_variable_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "")
    with pytest.raises(SecretUnavailable, match="env:ACME_KEY is empty"):
        read_reference("env:ACME_KEY")


def test_a_pipe_that_nobody_writes_to_holds_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SecretUnavailable, match="not a regular file"):
        read_reference(f"file:{tmp_path / 'pipe'}")


def test_a_folder_is_no_secret(tmp_path: Path) -> None:
    with pytest.raises(SecretUnavailable, match=f"file:{tmp_path}"):
        read_reference(f"file:{tmp_path}")


def test_what_is_no_reference_is_not_quoted() -> None:
    with pytest.raises(SecretUnavailable) as caught:
        read_reference(CANARY)
    assert CANARY not in str(caught.value)
