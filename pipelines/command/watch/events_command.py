"""The command that prints the events of a watch, or hands them on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Store
from pipelines.options.said_amounts import duration

if TYPE_CHECKING:
    from dtoss.watch.watch_folder import Home

_RETRIES = 5
_UNNAMED = ("--follow", "--files", "--retain")
"""What wants no reader."""
_MICROSECONDS = 1_000_000

Name = Annotated[str, Option("Name of the watch.", "NAME", name="--watch")]


@dataclass(frozen=True)
class Choice:
    """Which events are told."""

    title: ClassVar[str] = "Which events"
    after: Annotated[str | None, Option("Events behind this one, the id of an event: 12-34.", "CURSOR")] = None
    share: Annotated[
        str | None,
        Option("Of N processes of this reader the I-th: each has some subscriptions.", "I/N"),
    ] = None
    subscription: Annotated[str | None, Option("Only those of this subscription.", "ID")] = None
    target: Annotated[
        str | None, Option("Only those of subscriptions whose meta names this target.", "NAME", name="--for")
    ] = None
    kind: Annotated[list[str] | None, Option("Only these: enter, leave, dwell, cross, inside, reset.", "K")] = None


@dataclass(frozen=True)
class Delivery:
    """How events are handed on."""

    title: ClassVar[str] = "Whom they are handed to"
    follow: Annotated[bool, Option("Go on with what is committed, until it is ended.")] = False
    reader: Annotated[
        str | None,
        Option("Go on where this reader has ended; what it has yet to read is kept.", "NAME", name="--as"),
    ] = None
    command: Annotated[
        str | None,
        Option(
            "Hand events to a command on stdin; the cursor of --as moves when it ends with exit code 0.",
            "CMD",
            name="--exec",
        ),
    ] = None
    ack: Annotated[bool, Option("The cursor of --as moves to the ids that come back on stdin, a line each.")] = False
    ack_fd: Annotated[int | None, Option("Ids come back on this descriptor instead.", "N", more={"min": 0})] = None
    at_most_once: Annotated[bool, Option("The cursor of --as moves before events are printed.")] = False
    batch: Annotated[
        int | None,
        Option(
            "Events that --exec hands on at a time, or of --ack that are on their way; 1000 if not given.",
            "N",
            more={"min": 1},
        ),
    ] = None
    retries: Annotated[
        int | None,
        Option("How often --exec tries the same again; 5 if not given.", "N", more={"min": 0}),
    ] = None
    dead_letter: Annotated[
        str | None,
        Option("Where events go that --exec has failed for so often; else it ends.", "FILE"),
    ] = None


@dataclass(frozen=True)
class Instead:
    """What is done instead."""

    title: ClassVar[str] = "Instead"
    files: Annotated[bool, Option("Print the Parquet files that hold them instead.")] = False
    retain: Annotated[
        float | None,
        Option("Remove events that are older than this instead: 7d, 12h.", "TIME", parse=duration(None)),
    ] = None
    reset: Annotated[bool, Option("Begin the reader of --as anew, with the filter that is given now.")] = False
    forget: Annotated[bool, Option("Forget the reader of --as instead.")] = False


def events(
    store: Store,
    choice: Choice,
    delivery: Delivery,
    other: Instead,
    watch: Name = "default",
) -> None:
    """Print the events of a watch as JSON lines, in their order, or hand them to a command, and keep a cursor."""
    from dtoss.watch.events.readers import Cursor
    from dtoss.watch.watch_folder import Home

    ways = _names_of(
        **{
            "--exec": delivery.command,
            "--ack": delivery.ack or None,
            "--ack-fd": delivery.ack_fd,
            "--at-most-once": delivery.at_most_once,
        }
    )
    instead = _names_of(**{"--files": other.files, "--retain": other.retain, "--forget": other.forget})
    beside = [*_names_of(**{"--follow": delivery.follow, "--reset": other.reset, "--share": choice.share}), *ways]
    if len(instead) > 1 or (instead and beside):
        raise ValueError(f"{instead[0]} and {[*beside, *instead[1:]][0]} do not go together")
    if len(ways) > 1 and ways != ["--ack", "--ack-fd"]:
        raise ValueError(f"{ways[0]} and {ways[-1]} do not go together: the cursor moves in one way")
    if delivery.reader is None and (named := [one for one in (*beside, *instead) if one not in _UNNAMED]):
        raise ValueError(f"{named[0]} wants the name of a reader: --as NAME")
    if delivery.command is None and (
        lost := _names_of(**{"--retries": delivery.retries, "--dead-letter": delivery.dead_letter})
    ):
        raise ValueError(f"{lost[0]} belongs to --exec CMD")
    if delivery.batch is not None and not (delivery.command or delivery.ack or delivery.ack_fd is not None):
        raise ValueError("--batch belongs to --exec CMD or --ack")

    home = Home(store, watch)
    if other.forget:
        _forget(home, delivery.reader or "")
        return
    at = None if choice.after is None else Cursor.of(choice.after)
    if other.retain is not None:
        _retain(home, other.retain)
        return
    if other.files:
        from dtoss.watch.events.event_log import event_paths
        from dtoss.watch.events.watch_document import begun_watch

        begun_watch(home)
        for path in event_paths(home, at):
            print(path)
        return

    from dtoss.watch.events.consumer import Share
    from dtoss.watch.events.readers import Filter
    from dtoss.watch.targets.target import USUAL_BATCH
    from pipelines.command.watch.command_target import CommandTarget, words_of
    from pipelines.command.watch.deliver_events import How, hand_on
    from pipelines.command.watch.hand_batches import Trying

    hand_on(
        home,
        delivery.reader,
        at,
        Filter.of(choice.subscription, choice.kind, choice.target),
        Share() if choice.share is None else Share.said(choice.share),
        How(
            None if delivery.command is None else CommandTarget(words_of(delivery.command), str(delivery.reader)),
            0 if delivery.ack_fd is None and delivery.ack else delivery.ack_fd,
            delivery.at_most_once,
            delivery.batch or USUAL_BATCH,
            Trying(_RETRIES if delivery.retries is None else delivery.retries, dead_letter=delivery.dead_letter),
        ),
        follow=delivery.follow,
        reset=other.reset,
    )


def _names_of(**options: object) -> list[str]:
    """Return the names of the options that are given."""
    return [name for name, value in options.items() if value is not None and value is not False]


def _forget(home: Home, reader: str) -> None:
    from dtoss.watch.events.consumer import forget

    note(f"{reader} is forgotten" if forget(home, reader, note) else f"{reader} is not known: nothing is forgotten")


def _retain(home: Home, age: float) -> None:
    from dtoss.commits.lease import take
    from dtoss.watch.events.event_compaction import retain
    from dtoss.watch.events.watch_document import begun_watch
    from pipelines.command.terminal.output import print_table

    begun_watch(home)
    # a batch that is under way would have to be done again
    with take(home.folder, home.path, note, lambda: None):
        done = retain(home, int(age * _MICROSECONDS), time.time_ns() // 1000)
    rows = [
        ("events", f"{done.events:,} removed" + (f"; {done.held_by} has yet to read others" if done.held_by else "")),
        ("files", str(done.removed)),
        ("commits", f"{done.commits:,}"),
    ]
    print_table(rows)
