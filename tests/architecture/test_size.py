import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.repository import SOURCE

LONGEST_FILE = 350
LONGEST_FUNCTION = 60


def functions_in(file: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_stay_short() -> None:
    files = [file for suffix in ("py", "sql") for file in SOURCE.rglob(f"*.{suffix}")]
    assert files
    lengths = {str(file.relative_to(SOURCE)): len(file.read_text().splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_functions_stay_short() -> None:
    lengths = {
        f"{file.relative_to(SOURCE)}:{name}": length
        for file in SOURCE.rglob("*.py")
        for name, length in functions_in(file)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
