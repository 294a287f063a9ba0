"""``python -m dtoss``: the ``dtoss`` command, where it is not on the path."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution


def main() -> None:
    """Run the command that is installed as ``dtoss``, which this package does not know; it ends the process."""
    try:
        (command,) = distribution("dtoss").entry_points.select(group="console_scripts", name="dtoss")
        run = command.load()
    except (PackageNotFoundError, ImportError, ValueError) as error:
        why = " ".join(str(error).split())
        print(f"error: the commands of dtoss are not installed ({why}): pip install . in a checkout", file=sys.stderr)
        raise SystemExit(2) from None
    run()


if __name__ == "__main__":
    main()
