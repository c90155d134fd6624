import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.repository import ROOT, SOURCE

WORDS_OF_THE_PIPES = {"session", "tenant", "channel", "hook", "message", "event"}


def words_in(text: str) -> set[str]:
    """Prose and the parts of identifiers, lower case and singular, without names of the standard library."""
    ours = re.sub(r"\b(asyncio|threading)\.\w+", "", text)
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", ours)
    return {part.lower().removesuffix("s") for part in parts}


def test_rooms_import_only_what_they_may() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, check=False, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_words_are_found_inside_identifiers_but_not_inside_other_words() -> None:
    text = "session_id SessionRow HOOKS asyncio.Event prevents"
    assert words_in(text) & WORDS_OF_THE_PIPES == {"session", "hook"}


def test_the_engine_does_not_speak_of_any_pipe() -> None:
    files = list((SOURCE / "engine").rglob("*.py"))
    assert files
    leaks = {file.name: found for file in files if (found := words_in(file.read_text()) & WORDS_OF_THE_PIPES)}
    assert leaks == {}
