"""What every command of this folder shares: one-line errors, exit codes, a report on stderr."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from dtoss.errors import InputError
from dtoss.export.targets import check_file


class BadInput(ValueError):
    """A mistake in what the user gave; its message says what is wrong and what to do."""


def _checked(out: Path) -> Path:
    check_file("--out", str(out))
    return out


Out = Annotated[Path, typer.Option(help="Parquet file to write.", callback=_checked)]
"""The file that a command writes; refused before the work begins where it cannot be."""


def say(line: str) -> None:
    """Write one line to stderr."""
    print(line, file=sys.stderr, flush=True)


def run(main: Callable[..., None]) -> None:
    """Run ``main`` as a command: exit code 0; 2 with a line on stderr for bad input; 1 for a failure inside."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(main)
    try:
        app()
    except (BadInput, InputError, OSError) as error:
        say(f"error: {error}")
        sys.exit(2)


def expand(paths: Iterable[str | Path], pattern: str) -> list[Path]:
    """List the files that ``paths`` name, folders searched for ``pattern`` at any depth, in sorted order.

    ``paths``: files and folders, in the user's order; ``pattern``: glob for the files of a folder, such as ``"*.plt"``.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found = sorted(path.rglob(pattern))
            if not found:
                raise BadInput(f"{path} holds no file like {pattern}; name the files")
            files += found
        elif path.exists():
            files.append(path)
        else:
            raise BadInput(f"{path} does not exist")
    return files
