"""The documents as a site with a search, and the reference beside them: `python docs/pages.py build/docs`.

A page or a heading that is linked and missing, and a document that no list of pages names, are errors. The site loads
nothing from elsewhere, so it also works from a folder.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
FILES = (
    "*.md",
    "CITATION.cff",
    "LICENSE",
    "docs/*.md",
    "docs/images/*",
    "docs/notebooks/*.ipynb",
    "dtoss/compiled/*.md",
)
GROUPS = {
    "Begin": ["docs/README", "docs/tutorial", "docs/commands"],
    "Ask": [f"docs/{name}" for name in ("inputs", "queries", "frames", "zones", "by_road", "sql", "datasets")],
    "Follow": [
        f"docs/{name}"
        for name in ("engines", "cycles", "fresh", "ingest", "history", "watch", "deliver", "windows", "balance")
    ],
    "Serve": [f"docs/{name}" for name in ("serve", "features", "clients", "map", "cluster")],
    "Operate": [*(f"docs/{name}" for name in ("operating", "upgrading", "backup", "erasure")), "SECURITY"],
    "Rent": ["docs/renting", "docs/servers", "docs/ceps"],
    "Trust": [
        f"docs/{name}" for name in ("promises", "benchmarks", "figures", "claims", "design", "cells", "format", "enorm")
    ],
    "Change": ["CONTRIBUTING", "docs/rooms", "dtoss/compiled/README", "CHANGELOG", "modules"],
}
SETTINGS = {
    "project": "dtoss",
    "root_doc": "README",
    "html_title": "dtoss",
    "html_theme": "furo",
    "extensions": ["myst_parser"],
    "myst_heading_anchors": 4,
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_show_sphinx": False,
    "highlight_language": "text",
    "suppress_warnings": ["misc.highlighting_failure"],  # of languages that Pygments does not know, such as cron
}

MODULES = '<a href="reference/index.html">Every module, class and function</a>, with types and what each raises.\n'


def write_site(folder: Path) -> None:
    """Write the pages of the documents, laid out as in a checkout, so that links between them lead on."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place)
        for path in (found for pattern in FILES for found in sorted(ROOT.glob(pattern))):
            target = source / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        with (source / "README.md").open("a", encoding="utf-8") as begin:
            for name, pages in GROUPS.items():
                begin.write(f"\n```{{toctree}}\n:hidden:\n:caption: {name}\n\n" + "\n".join(pages) + "\n```\n")
        (source / "modules.md").write_text("# All modules\n\n" + MODULES, encoding="utf-8")
        made = Sphinx(
            source,
            None,
            folder,
            source / ".doctrees",
            "html",
            SETTINGS,
            status=None,
            warningiserror=True,
            freshenv=True,
        )
        made.build()
        if made.statuscode:
            raise SystemExit("the documents have faults, see above")
    (folder / "index.html").write_text('<meta http-equiv="refresh" content="0; url=README.html">\n')


if __name__ == "__main__":
    from reference import write_reference

    to = Path(sys.argv[1])
    write_site(to)
    print(f"{write_reference(to / 'reference')} pages of reference; begin with {to}/index.html")
