"""The documents as a site: each has a place in it, what is linked is there, and nothing is loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def pages():
    """The program that builds it."""
    place = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_each_document_is_in_one_list(pages):
    """And what the lists name is there."""
    named = [name for group in pages.GROUPS.values() for name in group if name != "modules"]
    files = [path for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")) if path != ROOT / "README.md"]
    found = [str(path.relative_to(ROOT).with_suffix("")) for path in files]
    assert sorted(named) == sorted([*found, "dtoss/compiled/README"])


@pytest.mark.deep("builds all pages; that each has a place, and that links lead somewhere, is quick")
def test_the_site_is_built_without_a_fault_and_loads_nothing_from_elsewhere(pages, tmp_path):
    """With a search that knows the words of the documents, and pictures."""
    pages.write_site(tmp_path)
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]*src=\"(?:https?:)?//[^>]*", text), page
        assert not re.findall(r"<link[^>]*rel=\"(?:stylesheet|preload)\"[^>]*href=\"(?:https?:)?//[^>]*", text), page
    search = json.loads((tmp_path / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    assert "docs/cycles" in [search["docnames"][at] for at in search["terms"]["leas"]]  # the stem of lease
    assert "url=README.html" in (tmp_path / "index.html").read_text()
    assert len(list((tmp_path / "_images").iterdir())) >= 5
