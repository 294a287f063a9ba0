"""The list of rooms, each with the sentence of its package: `python docs/rooms.py > docs/rooms.md`."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("dtoss", "ceps", "pipelines", "datasets")
HEAD = """# Rooms

A room is a folder. What may live there stands in its `__init__.py`, from which `python docs/rooms.py` makes this list.
`tests/rooms.txt` says which room imports which: downwards only.

| room | what may live here | files |
|---|---|---|
"""


def sentence(package: Path) -> str:
    """Return the first paragraph of a package's docstring in one line, without its full stop."""
    text = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).removesuffix(".").replace("``", "`")


def page() -> str:
    """Return the document."""
    packages = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("__init__.py"))
    packages.sort(key=lambda path: (FOLDERS.index(path.relative_to(ROOT).parts[0]), path.parent))
    rows = (
        f"| `{path.parent.relative_to(ROOT)}/` | {sentence(path)} | {len(list(path.parent.glob('*.py'))) - 1} |\n"
        for path in packages
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
