"""The commands that print the events of a watch, hand them on, or send them to a URL."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, Store, read_secret
from pipelines.command.watch.watch_command import WatchName
from pipelines.loop.exposition import Exposition, Numbers
from pipelines.options.said_amounts import duration

if TYPE_CHECKING:
    from dtoss.watch.watch_folder import Home
    from pipelines.command.watch.hand_batches import Counts


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
    from pipelines.command.watch.deliver_events import How, hand_on
    from pipelines.command.watch.hand_batches import CommandTarget, Trying, words_of

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


SECRET = "DTOSS_DELIVER_SECRET"
"""The variable that holds what a secret file may."""
_COUNTS = {
    "events": "Events that were taken.",
    "batches": "Batches that were taken.",
    "failed": "Tries that failed.",
    "dead": "Events that were set aside.",
}
_GAUGES = {"behind": "Batches of the watch that the reader has yet to read."}


@dataclass(frozen=True)
class Receiver:
    """Where events go."""

    title: ClassVar[str] = "Where they go"
    to: Annotated[
        str, Option("https://HOST/PATH, file:///PATH, redis://HOST/0?stream=S, mqtt://HOST/T, kafka://HOST/T.", "URL")
    ]
    reader: Annotated[
        str, Option("Go on where this reader has ended; what it has yet to read is kept.", "NAME", name="--as")
    ]
    secret_file: Annotated[
        str | None, Option(f"Holds what signs requests, or opens a server; {SECRET} may, too.", "FILE")
    ] = None
    allow_host: Annotated[
        list[str] | None, Option("This host may be at a private address, and be asked by http://.", "NAME")
    ] = None
    timeout: Annotated[
        float | None, Option("What a target may take for a batch.", "TIME", parse=duration(None), shown="30s")
    ] = 30.0


@dataclass(frozen=True)
class Taking:
    """How events are sent."""

    title: ClassVar[str] = "How they are sent"
    batch: Annotated[
        int | None, Option("Events at a time; 1000 if not given, 10000 of Kafka.", "N", more={"min": 1})
    ] = None
    once: Annotated[bool, Option("Send what there is now, and no more.")] = False
    retries: Annotated[int, Option("How often what is refused is sent again.", "N", more={"min": 0})] = 5
    patience: Annotated[
        float | None, Option("How long a target may be away; for ever if not given.", "TIME", parse=duration())
    ] = None
    dead_letter: Annotated[str | None, Option("Where events go that are not taken; else the command ends.", "FILE")] = (
        None
    )


def deliver(
    store: Store,
    receiver: Receiver,
    choice: Choice,
    taking: Taking,
    numbers: Numbers,
    watch: WatchName = "default",
    as_json: Json = False,
) -> None:
    """Send the events of a watch to a web server, a file, Redis, MQTT or Kafka, each at least once and in order."""
    from dtoss.client.endpoint import Access
    from dtoss.watch.events.consumer import Share
    from dtoss.watch.events.readers import Cursor, Filter, cursor_of_reader
    from dtoss.watch.events.watch_document import head_of
    from dtoss.watch.targets.target import target_at
    from dtoss.watch.watch_folder import Home
    from pipelines.command.watch.deliver_events import How, hand_on
    from pipelines.command.watch.hand_batches import Counts, Trying

    if receiver.timeout is None or receiver.timeout <= 0:
        raise ValueError("--timeout: a time above 0 is wanted, such as 30s")
    allowed = frozenset(host.lower().removesuffix(".") for host in receiver.allow_host or ())
    target = target_at(receiver.to, Access(read_secret(receiver.secret_file, SECRET), allowed, receiver.timeout))
    home, counts = Home(store, watch), Counts()

    def facts() -> dict[str, float]:
        head, cursor = head_of(home), cursor_of_reader(home, receiver.reader)
        return counts.facts() | {"behind": 0 if head is None else head.number - (0 if cursor is None else cursor.batch)}

    with closing(Exposition(numbers.metrics, numbers.metrics_file)) as shown:
        shown.show("deliver", facts, _COUNTS, _GAUGES)
        shown.write()
        hand_on(
            home,
            receiver.reader,
            None if choice.after is None else Cursor.of(choice.after),
            Filter.of(choice.subscription, choice.kind, choice.target),
            Share() if choice.share is None else Share.said(choice.share),
            How(
                target,
                batch=taking.batch or target.batch,
                trying=Trying(taking.retries, taking.patience, taking.dead_letter),
                tell=_say_json if as_json else _say,
                counts=counts,
                changed=shown.write,
            ),
            follow=not taking.once,
        )


def _say(counts: Counts) -> None:
    """Say what has become of events, in one line on stderr."""
    batches = "1 batch" if counts.batches == 1 else f"{counts.batches:,} batches"
    more = "".join(
        f", {count:,} {what}" for what, count in (("tries failed", counts.failed), ("set aside", counts.dead)) if count
    )
    note(f"{counts.events:,} events in {batches}{more}, up to {counts.upto}")


def _say_json(counts: Counts) -> None:
    """Print what has become of events, as a line of JSON."""
    print(json.dumps(counts.facts()), flush=True)
