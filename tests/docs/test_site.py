"""The site that `make docs` builds: complete, whole, and to be read without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.site import DOCS, FROM_THE_ROOT
from tests.docs.pages import ROOT

_NAV = re.compile(r"^\s+- (?:[^:\n]+: )?(\S+\.md)$", re.MULTILINE)
_LOADED = re.compile(r"<(?:script|img|iframe|link rel=.?(?:stylesheet|preconnect|preload))[^>]*https?://[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built strictly: a broken link, or a page that is in no menu, ends it."""
    there = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--quiet", "--site-dir", str(there)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return there


def test_every_page_is_in_the_menu_once() -> None:
    listed = _NAV.findall((ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2])
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | set(FROM_THE_ROOT.values())
    assert {page for page in pages if listed.count(page) != 1} == set()
    assert set(listed) - pages == set()


def test_the_site_has_every_page(site: Path) -> None:
    assert (site / "index.html").exists()
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if page.name != "README.md"]
    assert [str(page) for page in pages if not (site / page.with_suffix(".html")).exists()] == []


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = {
        f"{page.relative_to(site)}: {found}"
        for page in site.rglob("*.html")
        for found in _LOADED.findall(page.read_text())
    }
    assert loaded == set()


def test_links_to_files_that_the_site_does_not_have_become_text(site: Path) -> None:
    page = (site / "concepts" / "guarantees.html").read_text()
    assert "tests/crash" not in page
    assert "a worker stopped past its lease changes nothing" in page
