"""Which lines of kernels a run in checked mode came to, as coverage measured it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import coverage

ROOT = Path(__file__).parents[3]


class Lines(NamedTuple):
    """Lines of kernels, those of them that were run, and where the others are."""

    kernels: int
    run: int
    missing: dict[str, list[str]]

    def __str__(self) -> str:
        share = f"{100.0 * self.run / self.kernels:.1f} % of {self.kernels} lines of kernels were run in checked mode"
        never = [f"{file}: {', '.join(places)}" for file, places in sorted(self.missing.items())]
        return "\n".join([share, "never run, by the kernel that they are in:", *never])


def files_with_kernels(folder: Path = ROOT / "dtoss") -> list[Path]:
    """The files of a package that define kernels."""
    return [
        file
        for file in sorted(folder.rglob("*.py"))
        if any(mark in file.read_text() for mark in ("\n@kernel", "\n@step"))
    ]


def lines_of(data: Path) -> Lines:
    """Return what a file of coverage says of the kernels in dtoss."""
    measured = coverage.Coverage(data_file=str(data), config_file=False)
    measured.load()
    total = run = 0
    missing: dict[str, list[str]] = {}
    for file in files_with_kernels():
        _, statements, _, never, _ = measured.analysis2(str(file))
        for name, body in _kernels(file):
            total += len(body.intersection(statements))
            left = sorted(body.intersection(never))
            run += len(body.intersection(statements)) - len(left)
            if left:
                found = missing.setdefault(str(file.relative_to(ROOT)), [])
                found.append(f"{name} ({', '.join(_runs(left))})")
    return Lines(total, run, missing)


def _kernels(file: Path) -> list[tuple[str, set[int]]]:
    """Names and lines of the bodies of a file's kernels."""
    found = []
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef) and any(
            "kernel" in ast.unparse(by) or ast.unparse(by) == "step" for by in node.decorator_list
        ):
            found.append((node.name, set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))))
    return found


def _runs(lines: list[int]) -> list[str]:
    """Return lines as runs: 3, 4, 5 is 3-5."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return [str(a) if a == b else f"{a}-{b}" for a, b in runs]
