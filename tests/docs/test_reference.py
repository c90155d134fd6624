import re
from pathlib import Path

import pytest

import pillarbox
from pillarbox import Pillarbox, testing
from pillarbox.api.routes import ENDPOINTS
from pillarbox.hooks import model as hooks
from pillarbox.inbound import model as inbound
from pillarbox.outbound import model as outbound
from pillarbox.sessions import LIFECYCLES
from pillarbox.settings import describe_settings
from pillarbox.telemetry.metrics import INBOX_BEGINS
from scripts.reference import DOORS, WRITERS, rewritten, walk_commands, walk_errors, walk_metrics
from scripts.schema import MEANINGS, read_tables
from tests.docs.pages import REFERENCE, name_of

PAGES = sorted(REFERENCE.glob("*.md"))


def reference(name: str) -> str:
    return (REFERENCE / name).read_text()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_generated_blocks_are_what_the_code_says(page: Path) -> None:
    assert page.read_text() == rewritten(page.read_text()), "run `python scripts/reference.py`"


def test_every_writer_has_its_block() -> None:
    everything = "".join(page.read_text() for page in PAGES)
    assert [name for name in WRITERS if everything.count(f"<!-- generated: {name} -->") != 1] == []


def test_every_command_is_documented() -> None:
    page = reference("cli.md")
    named = {name for name, _ in walk_commands()}
    assert {"pillarbox serve", "pillarbox inbound post"} <= named
    assert {name for name in named if f"\n## `{name}`\n" not in page} == set()


def test_every_setting_is_documented_and_explained() -> None:
    page = reference("settings.md")
    settings = describe_settings()
    assert {f"{each.section}.{each.name}" for each in settings if not each.doc} == set()
    variables = {f"`PILLARBOX_{each.section.replace('.', '__')}__{each.name}`".upper() for each in settings}
    assert {variable for variable in variables if variable not in page.upper()} == set()


def test_every_endpoint_is_documented() -> None:
    page = reference("http.md")
    assert {each.path for each in ENDPOINTS if f"`{each.method} {each.path}`" not in page} == set()


def test_every_metric_is_documented() -> None:
    page = reference("metrics.md")
    names = {name for name, *_ in walk_metrics()}
    assert "pillarbox_inbound_oldest_age_seconds" in names
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_every_error_is_documented() -> None:
    page = reference("errors.md")
    assert {kind.__name__ for kind in walk_errors() if f"| `{kind.__name__}` |" not in page} == set()


def test_every_public_name_of_a_box_is_documented() -> None:
    page = reference("python.md")
    listed = {name: set(methods.split()) for name, (_, methods) in DOORS.items()}
    assert {name for name in vars(Pillarbox) if not name.startswith("_")} == listed["Pillarbox"]
    assert {name for name in listed if f"\n## `{name}`\n" not in page} == set()
    methods = {f"{name}.{method}(" for name, found in listed.items() if name != "Pillarbox" for method in found}
    assert {method for method in methods if method not in page} == set()
    assert {name for name in pillarbox.__all__ if not name.startswith("_") and name not in page} == set()


def test_every_table_is_explained() -> None:
    tables = {table.name for table in read_tables()}
    assert {"inbound_queue", "message_history", "inbox"} <= tables
    assert tables - MEANINGS.keys() == set()
    assert MEANINGS.keys() - tables == set()


def test_every_state_is_in_the_state_machines() -> None:
    page = (REFERENCE.parent / "concepts" / "state-machines.md").read_text()
    section = {part.partition("\n")[0]: part for part in page.split("\n## ")}
    kept: dict[str, tuple[str, ...]] = {
        "An inbound message": inbound.STATUSES,
        "A hook event": hooks.STATUSES,
        "An outbound message": outbound.STATUSES,
        "A session": LIFECYCLES,
        "A key of the inbox": INBOX_BEGINS,
    }
    named = {title: set(re.findall(r"`(\w+)`", section[title])) for title in kept}
    assert {title: set(states) - named[title] for title, states in kept.items()} == {title: set() for title in kept}


def test_every_name_for_tests_is_documented() -> None:
    page = (REFERENCE.parent / "guides" / "testing.md").read_text()
    own = [name for name, kind in vars(testing).items() if getattr(kind, "__module__", "") == testing.__name__]
    public = [name for name in own if not name.startswith("_") and name not in ("ManualClock", "Rehearsal")]
    assert {name for name in public if name not in page} == set()
    assert {
        name for name in vars(testing.Rehearsal) if not name.startswith("_") and f"test.{name}" not in page
    } == set()
