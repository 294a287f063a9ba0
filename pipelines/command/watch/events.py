"""The command that prints the events of a watch."""

from __future__ import annotations

import select
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.command.notes import note
from pipelines.command.options import Store

if TYPE_CHECKING:
    from dtoss.watch.home import Home
    from dtoss.watch.settings import Settings
    from dtoss.watch.told.cursor import Cursor
    from dtoss.watch.told.events import Told
    from pipelines.loop.stopping import Stopping

_KEPT_SECONDS = 1.0
"""How often the cursor of a named reader is written while events are printed."""
_ROWS = 1 << 16
_MICROSECONDS = 1_000_000

Name = Annotated[str, typer.Option("--watch", help="Name of the watch.", metavar="NAME")]


def events(
    store: Store,
    watch: Name = "default",
    after: Annotated[
        str | None, typer.Option("--after", help="Events behind this one, the id of an event: 12-34.", metavar="CURSOR")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is committed, until it is ended.")] = False,
    reader: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="Go on where this reader has ended; what it has yet to read is kept.",
            metavar="NAME",
        ),
    ] = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", help="Only those of this subscription.", metavar="ID")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="Only these: enter, leave, inside, reset.", metavar="K")
    ] = None,
    files: Annotated[bool, typer.Option("--files", help="Print the Parquet files that hold them instead.")] = False,
    retain: Annotated[
        str | None,
        typer.Option("--retain", help="Remove events that are older than this instead: 7d, 12h.", metavar="TIME"),
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Forget the reader of --as instead.")] = False,
) -> None:
    """Print the events of a watch as JSON lines, in their order, each once."""
    from dtoss.watch.home import Home
    from dtoss.watch.told.cursor import Cursor

    home = Home(store, watch)
    instead = [name for name, given in (("--files", files), ("--retain", retain), ("--forget", forget)) if given]
    if len(instead) > 1 or (instead and follow):
        raise ValueError(f"{instead[0]} and {(['--follow'] if follow else instead[1:])[0]} do not go together")
    if forget:
        _forget(home, reader)
        return
    at = None if after is None else Cursor.of(after)
    if retain is not None:
        _retain(home, retain)
        return
    if files:
        from dtoss.watch.told.listing import event_paths

        _settings(home)
        for path in event_paths(home, at):
            print(path)
        return
    if follow:
        _say_waiting(home)
    else:
        _settings(home)
    _print(home, _Reader(home, reader, at), subscription, kind, follow)


class _Reader:
    """Where the reader stands, written now and then where it has a name."""

    def __init__(self, home: Home, name: str | None, at: Cursor | None) -> None:
        from dtoss.watch.told.contents import contents_of
        from dtoss.watch.told.cursor import BEGINNING
        from dtoss.watch.told.document import head_of
        from dtoss.watch.told.readers import cursor_of_reader

        self.home, self.name, self.at = home, name, at
        self.written = 0.0
        if name is None:
            return
        found = None if at is not None else cursor_of_reader(home, name)
        if found is not None:
            self.at = found
            return
        head = head_of(home)
        if head is None:
            return  # there is nothing to keep yet, and the name of the watch may be another one's
        if self.at is None:
            self.at = contents_of(home, head.folded).gone or BEGINNING
        self.keep(self.at, now=True)  # from here on nothing is removed that it has not read

    def keep(self, cursor: Cursor, *, now: bool = False) -> None:
        """Stand behind a cursor, once all up to it is printed."""
        from dtoss.watch.told.readers import keep_cursor

        self.at = cursor
        if self.name is not None and (now or time.monotonic() - self.written >= _KEPT_SECONDS):
            keep_cursor(self.home, self.name, cursor)
            self.written = time.monotonic()


def _print(home: Home, reader: _Reader, subscription: str | None, kinds: list[str] | None, follow: bool) -> None:
    from dtoss.watch.told.events import told_events
    from dtoss.watch.told.following import follow as followed
    from pipelines.loop.stopping import Stopping

    settings: Settings | None = None
    stopping = Stopping()
    if follow:
        told = followed(home, reader.at, subscription, kinds, goes_on=lambda: not stopping.asked and _is_read())
    else:
        told = told_events(home, reader.at, subscription, kinds)
    last = reader.at
    # one who follows is ended by a signal, and that is no failure
    with stopping.listening() if follow else nullcontext():
        try:
            for part in told:
                if settings is None:
                    settings = _settings(home)
                _tell(part, settings, stopping)
                reader.keep(part.upto)
                if stopping.asked:
                    break
        finally:
            if reader.at is not None and reader.at != last:
                reader.keep(reader.at, now=True)


def _tell(part: Told, settings: Settings, stopping: Stopping) -> None:
    from dtoss.watch.told.lines import json_lines

    if part.events is None:
        return
    for begin in range(0, part.events.num_rows, _ROWS):
        data = json_lines(part.events.slice(begin, _ROWS), settings)
        with stopping.cycle():  # who does not read must not keep it for ever
            _write(memoryview(data))


def _write(rest: memoryview) -> None:
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # of a notebook, or of whoever has put something in its place
        sys.stdout.write(str(rest, "utf-8"))
        return
    while len(rest):  # without a buffer it may write less than it is given
        rest = rest[raw.write(rest) :]
    raw.flush()


def _say_waiting(home: Home) -> None:
    """Say that one who follows has nothing to read yet, where that is so: the name may be another one's."""
    from dtoss.watch.home import way_to
    from dtoss.watch.told.document import head_of

    if head_of(home) is None:
        note(f"waiting for the first batch of watch {home.name}{way_to(home)}")


def _is_read() -> bool:
    """Return whether someone still reads what is printed; of anything but a pipe that is always so."""
    try:
        number = sys.stdout.fileno()
        asked = select.poll()
        asked.register(number, select.POLLERR)
        found = asked.poll(0)
    except (AttributeError, OSError, ValueError):
        return True
    return not any(event & (select.POLLERR | select.POLLNVAL) for _, event in found)


def _settings(home: Home) -> Settings:
    """Return the settings of a watch that has begun."""
    from dtoss.watch.told.document import begun

    return begun(home).settings


def _forget(home: Home, reader: str | None) -> None:
    from dtoss.watch.told.readers import forget_reader

    if reader is None:
        raise ValueError("--forget wants the name of a reader: --as NAME")
    note(f"{reader} is forgotten" if forget_reader(home, reader) else f"{reader} is not known: nothing is forgotten")


def _retain(home: Home, text: str) -> None:
    from dtoss.commits.lease import take
    from dtoss.watch.told.retain import retain
    from pipelines.command.output import print_table
    from pipelines.rows.amounts import seconds_of

    age = seconds_of(text)
    _settings(home)
    # a batch that is under way would have to be done again
    with take(home.folder, home.path, note, lambda: None):
        done = retain(home, int(age * _MICROSECONDS), time.time_ns() // 1000)
    rows = [
        ("events", f"{done.events:,} removed" + (f"; {done.held_by} has yet to read others" if done.held_by else "")),
        ("files", f"{done.files:,} of events, {done.state:,} of state, {done.subscriptions:,} of subscriptions"),
        ("commits", f"{done.commits:,}"),
    ]
    print_table(rows)
