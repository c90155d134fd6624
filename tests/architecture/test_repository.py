import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.repository import ROOT, text_of, tracked_files

# In pieces, so that this file does not name them either.
REGISTRIES = {
    "pypi": "org",
    "pythonhosted": "org",
    "npmjs": "(org|com)",
    "crates": "io",
    "ghcr": "io",
    "quay": "io",
}
MACHINE_PATHS = ["work", "root", "opt/pypi"]
FORBIDDEN = re.compile(
    "|".join(
        [rf"\b{name}\.{domain}\b" for name, domain in REGISTRIES.items()]
        + [rf"(?<![\w.\-}}])/{path}(?=[/\s\"'`:]|$)" for path in MACHINE_PATHS]
    ),
    re.MULTILINE,
)


def imports_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("text", ["see https://pypi." + "org/simple", "cd /" + "work/main", "HOME=/" + "root"])
def test_hosts_and_machine_paths_are_recognised(text: str) -> None:
    assert FORBIDDEN.search(text)


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    named = {
        str(file.relative_to(ROOT)): found.group()
        for file in tracked_files()
        if (text := text_of(file)) and (found := FORBIDDEN.search(text))
    }
    assert named == {}


def test_no_test_sleeps_or_mocks() -> None:
    used = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in (ROOT / "tests").rglob("*.py")
        for name in imports_of(ast.parse(file.read_text()))
        if name == "time.sleep" or name.startswith(("unittest.mock", "mock.")) or name == "mock"
    }
    assert used == set()
