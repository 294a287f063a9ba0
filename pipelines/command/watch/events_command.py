"""The command that prints the events of a watch, or hands them on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Store

if TYPE_CHECKING:
    from dtoss.watch.watch_folder import Home

_BATCH, _RETRIES = 1000, 5
_UNNAMED = ("--follow", "--files", "--retain")
"""What wants no reader."""
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
    command: Annotated[
        str | None,
        typer.Option(
            "--exec",
            help="Hand events to a command on stdin; the cursor of --as moves when it ends with exit code 0.",
            metavar="CMD",
        ),
    ] = None,
    ack: Annotated[
        bool, typer.Option("--ack", help="The cursor of --as moves to the ids that come back on stdin, a line each.")
    ] = False,
    ack_fd: Annotated[
        int | None, typer.Option("--ack-fd", help="Ids come back on this descriptor instead.", metavar="N", min=0)
    ] = None,
    at_most_once: Annotated[
        bool, typer.Option("--at-most-once", help="The cursor of --as moves before events are printed.")
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            help="Events that --exec hands on at a time, or of --ack that are on their way; 1000 if not given.",
            metavar="N",
            min=1,
        ),
    ] = None,
    retries: Annotated[
        int | None,
        typer.Option("--retries", help="How often --exec tries the same again; 5 if not given.", metavar="N", min=0),
    ] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(
            "--dead-letter", help="Where events go that --exec has failed for so often; else it ends.", metavar="FILE"
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            "--share", help="Of N processes of this reader the I-th: each has some subscriptions.", metavar="I/N"
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
    reset: Annotated[
        bool, typer.Option("--reset", help="Begin the reader of --as anew, with the filter that is given now.")
    ] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Forget the reader of --as instead.")] = False,
) -> None:
    """Print the events of a watch as JSON lines, in their order, or hand them to a command, and keep a cursor."""
    from dtoss.watch.events.cursor import Cursor
    from dtoss.watch.watch_folder import Home

    ways = _names_of(**{"--exec": command, "--ack": ack or None, "--ack-fd": ack_fd, "--at-most-once": at_most_once})
    instead = _names_of(**{"--files": files, "--retain": retain, "--forget": forget})
    beside = [*_names_of(**{"--follow": follow, "--reset": reset, "--share": share}), *ways]
    if len(instead) > 1 or (instead and beside):
        raise ValueError(f"{instead[0]} and {[*beside, *instead[1:]][0]} do not go together")
    if len(ways) > 1 and ways != ["--ack", "--ack-fd"]:
        raise ValueError(f"{ways[0]} and {ways[-1]} do not go together: the cursor moves in one way")
    if reader is None and (named := [one for one in (*beside, *instead) if one not in _UNNAMED]):
        raise ValueError(f"{named[0]} wants the name of a reader: --as NAME")
    if command is None and (lost := _names_of(**{"--retries": retries, "--dead-letter": dead_letter})):
        raise ValueError(f"{lost[0]} belongs to --exec CMD")
    if batch is not None and not (command or ack or ack_fd is not None):
        raise ValueError("--batch belongs to --exec CMD or --ack")

    home = Home(store, watch)
    if forget:
        _forget(home, reader or "")
        return
    at = None if after is None else Cursor.of(after)
    if retain is not None:
        _retain(home, retain)
        return
    if files:
        from dtoss.watch.events.list_event_files import event_paths
        from dtoss.watch.events.watch_document import begun_watch

        begun_watch(home)
        for path in event_paths(home, at):
            print(path)
        return

    from dtoss.watch.events.consumer import Share
    from dtoss.watch.events.readers import Filter
    from pipelines.command.watch.deliver_events import How, hand_on

    hand_on(
        home,
        reader,
        at,
        Filter.of(subscription, kind),
        Share() if share is None else Share.said(share),
        How(
            command,
            0 if ack_fd is None and ack else ack_fd,
            at_most_once,
            _BATCH if batch is None else batch,
            _RETRIES if retries is None else retries,
            dead_letter,
        ),
        follow=follow,
        reset=reset,
    )


def _names_of(**options: object) -> list[str]:
    """Return the names of the options that are given."""
    return [name for name, value in options.items() if value is not None and value is not False]


def _forget(home: Home, reader: str) -> None:
    from dtoss.watch.events.consumer import forget

    note(f"{reader} is forgotten" if forget(home, reader, note) else f"{reader} is not known: nothing is forgotten")


def _retain(home: Home, text: str) -> None:
    from dtoss.commits.lease import take
    from dtoss.watch.events.event_retention import retain
    from dtoss.watch.events.watch_document import begun_watch
    from pipelines.command.terminal.output import print_table
    from pipelines.rows.durations_and_shares import seconds_of

    age = seconds_of(text)
    begun_watch(home)
    # a batch that is under way would have to be done again
    with take(home.folder, home.path, note, lambda: None):
        done = retain(home, int(age * _MICROSECONDS), time.time_ns() // 1000)
    rows = [
        ("events", f"{done.events:,} removed" + (f"; {done.held_by} has yet to read others" if done.held_by else "")),
        ("files", f"{done.files:,} of events, {done.state:,} of state, {done.subscriptions:,} of subscriptions"),
        ("commits", f"{done.commits:,}"),
    ]
    print_table(rows)
