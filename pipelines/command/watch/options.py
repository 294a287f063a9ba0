"""Options that the commands of standing questions share."""

from __future__ import annotations

from typing import Annotated

import typer

from dtoss.watch.home import DEFAULT_NAME

WatchName = Annotated[str, typer.Option("--watch", help="Name of the watch in the store.", metavar="NAME")]
NO_NAME = DEFAULT_NAME
"""The watch where none is named."""
