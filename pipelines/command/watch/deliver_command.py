"""The command that sends the events of a watch to a URL."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, Store
from pipelines.command.terminal.secret_file import read_secret
from pipelines.command.watch.events_command import Choice
from pipelines.command.watch.watch_options import WatchName
from pipelines.loop.exposition import Exposition, Numbers
from pipelines.options.said_amounts import duration

if TYPE_CHECKING:
    from pipelines.command.watch.hand_batches import Counts

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
