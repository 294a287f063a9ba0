"""``python -m dtoss``: the ``dtoss`` command, where it is not on the path."""

from __future__ import annotations

import sys
from pathlib import Path

from dtoss.errors import InputError
from dtoss.extras import load_installed


def main() -> None:
    """Run the command that is installed as ``dtoss``, which this package does not know; it ends the process."""
    leave_working_folder(Path(__file__).resolve().parents[1])
    try:
        run = load_installed("console_scripts", "dtoss")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    run()


def leave_working_folder(home: Path) -> None:
    """Look for modules where dtoss is installed, not in the working folder, which may have a ``pipelines`` of its own.

    ``python -m`` puts the working folder before all others; where dtoss is run from there, it stays.
    """
    here = Path.cwd().resolve()
    if not sys.flags.safe_path and here != home and Path(sys.path[0]).resolve() == here:
        del sys.path[0]


if __name__ == "__main__":
    main()
