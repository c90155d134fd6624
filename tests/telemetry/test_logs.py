"""Logs: one line on stderr for each event, with nothing secret in it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from pillarbox.telemetry import configure, logger


@pytest.fixture(autouse=True)
def _root_logger_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_logs_are_one_object_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    logger("pillarbox.inbound").warning("delivery failed", message_id=7, attempt=2, error="no route")
    printed = capsys.readouterr()
    assert printed.out == ""
    line = json.loads(printed.err)
    at = datetime.fromisoformat(line.pop("timestamp"))
    assert at.tzinfo == UTC
    assert line == {
        "event": "delivery failed",
        "level": "warning",
        "logger": "pillarbox.inbound",
        "message_id": 7,
        "attempt": 2,
        "error": "no route",
    }


def test_text_logs_are_lines_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "text")
    logger("pillarbox.inbound").info("delivered", message_id=7)
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "delivered" in printed
    assert "message_id=7" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize("shape", ["text", "json"])
def test_no_secret_reaches_a_line_whoever_logs_it(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure("debug", "json" if shape == "json" else "text")
    logger("pillarbox").info("to alice@example.com", error=ValueError("Bearer hunter2"), seen=["whsec_hunter2"])
    logging.getLogger("uvicorn").info("GET %s", "http://h.example/login?key=hunter2")
    try:
        raise ValueError("postgresql://u:hunter2@h.example/db")
    except ValueError:
        logging.getLogger("psycopg").exception("lost")
    printed = capsys.readouterr().err
    assert "hunter2" not in printed
    assert "alice" not in printed
    assert "Traceback" in printed


def test_what_is_below_the_level_is_not_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure("error", "text")
    quiet = logger("pillarbox")
    quiet.debug("a")
    quiet.info("b")
    quiet.warning("c")
    quiet.error("d")
    assert capsys.readouterr().err.count("\n") == 1


def test_a_field_may_have_any_name_and_never_hides_the_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    logger("pillarbox").info("started", name="n", event="other", level="x", message="m")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"], line["name"], line["message"]) == ("started", "info", "n", "m")


def test_an_embedding_application_gets_a_scrubbed_line_in_its_own_handlers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        logger("pillarbox.inbound").info("delivered", message_id=7, error="Bearer hunter2")
    assert caplog.messages == ["delivered message_id=7 error=Bearer ***"]


def test_logging_imports_neither_structlog_nor_prometheus_before_they_are_needed() -> None:
    program = (
        "import sys; from pillarbox.telemetry import logger, scrub; logger('pillarbox').error('x');"
        "print([m for m in ('structlog', 'prometheus_client') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
