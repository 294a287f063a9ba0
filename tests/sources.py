"""Files of the project as syntax trees, for tests that read them.

The garbage collector rests meanwhile: it would take four fifths of the time, and finds nothing in trees. Modules that
import this one are run one after the other, by one process, and read each file once; see tests/conftest.py.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


@contextmanager
def many_trees() -> Iterator[None]:
    """Have no garbage looked for."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def statements_in(node: ast.AST) -> list[ast.AST]:
    """Return the statements, handlers and cases right below a node: what imports and defines is no expression."""
    kinds = ast.stmt, ast.excepthandler, ast.match_case
    return [one for one in ast.iter_child_nodes(node) if isinstance(one, kinds)]


@cache
def trees(folder: Path) -> dict[Path, ast.Module]:
    """Return the modules in a folder and below it, in the order of their paths."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}
