import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks_of, name_of, pages
from tests.docs.reader import Reader

RUNNABLE = {"python", "sh", "json", "toml"}
SERVERS = {
    "postgresql://pillarbox@db.example.com/pillarbox": "postgres_url",
    "amqp://guest:guest@localhost/": "rabbitmq_url",
}


def needs_running(page: Path) -> bool:
    return any(block.kind in RUNNABLE for block in blocks_of(page))


@pytest.mark.parametrize("page", [page for page in pages() if needs_running(page)], ids=name_of)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    text = page.read_text()
    instead = {theirs: request.getfixturevalue(ours) for theirs, ours in SERVERS.items() if theirs in text}
    with Reader(tmp_path, instead=instead) as reader:
        for block in blocks_of(page):
            reader.follow(block)


@pytest.mark.parametrize(
    ("kind", "text", "verb", "detail"),
    [
        ("python", "print(undefined)", "", ""),
        ("sh", "false; true", "", ""),
        ("sh", "pillarbox sessions opne x", "", ""),
        ("sh", "echo 'not that'", "terminal", "listening on"),
        ("text", "something else\n", "printed", ""),
        ("json", "{'a': 1}", "", ""),
        ("ruby", "puts 1", "", ""),
    ],
)
def test_a_wrong_block_is_noticed(kind: str, text: str, verb: str, detail: str, tmp_path: Path) -> None:
    with Reader(tmp_path, instead={}) as reader, pytest.raises((AssertionError, ValueError)):
        reader.follow(Block("here", kind, text, verb, detail))


def test_make_run_starts_what_is_run_here_instead_of_it() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nrun:")[2].partition("\n\n")[0]
    assert "$(BIN)/pillarbox dev" in recipe


def anchors_of(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links_of(page: Path) -> list[str]:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    broken = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors_of(there)):
            broken.append(link)
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, to_read = set[Path](), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            to_read += ((page.parent / link.partition("#")[0]).resolve() for link in links_of(page) if link[0] != "#")
    assert [name_of(page) for page in pages() if page not in reached] == []
