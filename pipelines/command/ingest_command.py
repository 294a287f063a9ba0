"""``dtoss put`` and ``dtoss ingest``: rows of files, or of a source that goes on, told to a server."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from dtoss.errors import InputError
from dtoss.option import Option
from dtoss.snapshots.manifest_fields import Columns
from pipelines.command.query.one_place import token_of
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.options import Json, read_secret
from pipelines.loop.exposition import Exposition, Numbers
from pipelines.options.said_amounts import duration
from pipelines.options.snapshot_options import SaidOf

if TYPE_CHECKING:
    import pyarrow as pa

    from dtoss.client.put_rows import Put
    from dtoss.client.remote_index import RemoteIndex
    from dtoss.feeds.feed import Batch, Feed
    from dtoss.log.read_upto import ReadUpto
    from pipelines.loop.stopping import Stopping
    from pipelines.rows.position_frame import Positions


PATIENCE = 60.0
"""Seconds for which rows are sent again."""


@dataclass(frozen=True)
class Receiver:
    """Where rows go."""

    title: ClassVar[str] = "Where rows go"
    to: Annotated[str, Option("URL of dtoss serve with --allow-positions.", "URL")]
    token_file: Annotated[str | None, Option("Holds the token that --to wants; DTOSS_TOKEN may, too.", "FILE")] = None
    patience: Annotated[
        float | None,
        Option(
            "How long rows are sent again while a server is away or busy; 1min if not given.", "TIME", parse=duration()
        ),
    ] = None


@dataclass(frozen=True)
class Rows:
    """What is read of rows."""

    title: ClassVar[str] = "What is read"
    columns: Annotated[Mapping[str, Any], SaidOf(Columns)] = field(default_factory=dict)


def put(
    receiver: Receiver,
    rows: Rows,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files, directories or globs, as of rebuild; stdin, JSON lines or CSV, is -, or none."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell a server rows of positions; they are on its disk then, and in its answers a second later."""
    import dtoss
    from pipelines.engines.progress import work_shown

    index = dtoss.connect(receiver.to, token_of(receiver.token_file))
    patience = PATIENCE if receiver.patience is None else receiver.patience
    told = Told()
    with ExitStack() as stack:
        paths = files or ["-"]
        if "-" in paths:
            if len(paths) > 1:
                raise InputError("- is all of stdin: files beside it are another command's")
            paths = [stack.enter_context(_stdin())]

        def show() -> None:
            stack.enter_context(work_shown("rows are sent"))

        tell_files(paths, index, rows.columns, patience, told, show)
    if told.read and not told.taken:
        raise InputError(f"none of {told.read:,} rows could be used: {most_said(told.reasons)}")
    print(json.dumps(told.facts() | {"reasons": dict(told.reasons)}) if as_json else str(told))


@contextmanager
def _stdin() -> Iterator[str]:
    """Give the path of a file of what comes on stdin, as long as the ``with`` lasts."""
    with tempfile.TemporaryDirectory(prefix="dtoss-put-") as folder:
        text = sys.stdin.read()
        kind = "jsonl" if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else "csv"
        path = Path(folder) / f"stdin.{kind}"
        path.write_text(text, encoding="utf-8")
        yield str(path)


SECRET_NAME = "DTOSS_INGEST_SECRET"
"""The variable that holds what a secret file may."""
_COUNTS = {
    "read": "Rows that came.",
    "taken": "Rows that the log has taken.",
    "late": "Rows that were older than what stood.",
    "unchanged": "Rows that were what stood already.",
    "bad": "Rows that cannot be used.",
}
_GAUGES = {"seq": "Sequence number of the last row that was taken."}
LOOK_SECONDS = 1.0
"""For which a source is waited for, before it is seen whether the command is to end."""
Tell = Callable[[list[bytes], str, "ReadUpto | None"], bool]
"""Tells rows, lines of text, of a kind of files; returns whether where their source goes on went with the last."""


@dataclass(frozen=True)
class Source:
    """Where rows come from."""

    title: ClassVar[str] = "Where rows come from"
    source: Annotated[
        str,
        Option(
            "redis://HOST/0?stream=NAME, mqtt://HOST/TOPIC, kafka://HOST/TOPIC, https://HOST.",
            "URL",
            name="--from",
        ),
    ]
    secret_file: Annotated[
        str | None, Option(f"Holds the password, token or settings that open it; {SECRET_NAME} may, too.", "FILE")
    ] = None
    every: Annotated[
        float | None, Option("How often a URL is looked at.", "TIME", parse=duration(None), shown="10s")
    ] = 10.0
    shape: Annotated[str | None, Option("What messages are, where not rows: owntracks, gtfs-realtime.", "NAME")] = None
    once: Annotated[bool, Option("Take what there is now, and no more.")] = False


def ingest(source: Source, receiver: Receiver, rows: Rows, numbers: Numbers, as_json: Json = False) -> None:
    """Tell a server the rows of Redis, MQTT, Kafka or a URL, each at least once; it goes on until it is ended."""
    import dtoss
    from dtoss.client.endpoint import Access
    from dtoss.feeds.feed import GTFS_REALTIME, check_shape, feed_at
    from pipelines.engines.progress import end_beginning
    from pipelines.loop.stopping import Stopping
    from pipelines.rows.delimited_frame import check_said

    check_said(Columns(**rows.columns))
    if source.every is None or source.every <= 0:
        raise ValueError("--every: a time above 0 is wanted, such as 10s")
    check_shape(source.shape)
    secret = read_secret(source.secret_file, SECRET_NAME)
    index = dtoss.connect(receiver.to, token_of(receiver.token_file))
    patience = PATIENCE if receiver.patience is None else receiver.patience

    def upto(name: str, offsets: Mapping[int, int] | None = None) -> dict[int, int]:
        return index.put_offsets(name, offsets, patience=patience)

    read_as = repr((source.shape, sorted(rows.columns.items())))
    access = Access(secret, every=source.every, whole=source.shape == GTFS_REALTIME, upto=upto, read_as=read_as)
    feed = feed_at(source.source, access)
    stopping, told = Stopping(), Told()
    shown = Exposition(numbers.metrics, numbers.metrics_file)
    shown.show("ingest", told.facts, _COUNTS, _GAUGES)
    shown.write()

    def tell(lines: list[bytes], kind: str, behind: ReadUpto | None) -> bool:
        with tempfile.NamedTemporaryFile(prefix="dtoss-ingest-", suffix=f".{kind}") as file:
            file.write(b"\n".join(lines) + b"\n")
            file.flush()
            return tell_files([file.name], index, rows.columns, patience, told, upto=behind)

    end_beginning()  # whoever goes on is not shown how far it is
    try:
        with stopping.listening():
            take_all(feed, tell, told, stopping, upto, once=source.once, shape=source.shape, changed=shown.write)
    finally:
        feed.close()
        shown.close()
    print(json.dumps(told.facts() | {"reasons": dict(told.reasons)}) if as_json else str(told))


def take_all(
    feed: Feed,
    tell: Tell,
    told: Told,
    stopping: Stopping,
    put_upto: Callable[[str, Mapping[int, int]], object] = lambda name, offsets: None,
    *,
    once: bool = False,
    shape: str | None = None,
    changed: Callable[[], None] = lambda: None,
) -> None:
    """Take batches of a source until it is to end, each acknowledged when what can be used of it is on disk.

    ``tell``: tells rows; ``put_upto``: puts in the log where a source goes on behind a batch, if it did not go there
    with the last of its rows; ``once``: ends when nothing comes any more; ``shape``: of messages that are no rows;
    ``changed``: is called after each batch.
    """
    from dtoss.client.http_connections import LONGEST_PAUSE, SHORTEST_PAUSE, Later, backoff

    pauses, batch = backoff(SHORTEST_PAUSE, LONGEST_PAUSE), None
    while not stopping.asked:
        try:
            batch = batch or feed.take(LOOK_SECONDS)
            if batch is None:
                if once:
                    return
                continue
            with stopping.cycle():
                if not tell_batch(batch, tell, told, shape) and batch.upto is not None:
                    put_upto(batch.upto.source, batch.upto.offsets)
                feed.acknowledge(batch)
                batch = None
            changed()
        except Later as later:
            if once:
                raise
            note(f"{later}; it is tried again")
            stopping.wait(max(next(pauses), later.seconds))
            continue
        pauses = backoff(SHORTEST_PAUSE, LONGEST_PAUSE)


def tell_batch(batch: Batch, tell: Tell, told: Told, shape: str | None = None) -> bool:
    """Tell the rows of a batch, and return whether where its source goes on went with the last of them.

    Where they cannot be read together, those that cannot be read alone are refused.
    """
    from dtoss.feeds.feed import rows_of_shape

    if shape is None:
        rows = batch.rows()
    else:
        at = zip_longest(batch.messages, batch.topics)
        rows = [row for one, topic in at for row in rows_of_shape(shape, one, topic, told.refuse)]
    if batch.csv:
        return _tell_some(rows, "csv", tell, told, batch.upto)
    good = [line for line in rows if _is_text(line)]
    told.refuse("not written in UTF-8, or holds zero bytes", len(rows) - len(good))
    return _tell_some(good, "jsonl", tell, told, batch.upto)


def _tell_some(rows: list[bytes], kind: str, tell: Tell, told: Told, upto: ReadUpto | None) -> bool:
    if not rows:
        return False
    try:
        return tell(rows, kind, upto)
    except (InputError, ValueError) as error:
        if len(rows) == 1:
            told.refuse(str(error).splitlines()[0], 1)
            return False
        half = len(rows) // 2
        _tell_some(rows[:half], kind, tell, told, None)
        return _tell_some(rows[half:], kind, tell, told, upto)


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in line


NAMED_BAD = 20
"""Bad rows that are printed; of more the count is said."""
LONGEST_REASON, MOST_REASONS = 200, 100
"""Characters of a reason, and reasons that are told apart: strangers write what they are made of."""
_FILE = re.compile(r"\S*dtoss-ingest-\S*")


@dataclass
class Told:
    """What became of rows so far."""

    read: int = 0
    taken: int = 0
    seq: int = 0
    late: int = 0
    unchanged: int = 0
    bad: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, put: Put | None, bad: list[tuple[int, str]], sent: int) -> None:
        """Add what became of rows of a batch; ``bad``: the place in it of those that were not sent, and why."""
        count = sent + len(bad)
        if put is not None:
            self.taken, self.seq = self.taken + put.taken, put.seq or self.seq
            self.late, self.unchanged = self.late + put.late, self.unchanged + put.unchanged
            kept = sorted({*range(count)} - {row for row, _ in bad}) if put.refused else []
            bad = sorted([*bad, *((kept[row], reason) for row, reason in put.refused)])
        for row, reason in bad:
            if sum(self.reasons.values()) < NAMED_BAD:
                print(f"bad: row {self.read + row + 1}: {reason}", file=sys.stderr)
            self.reasons[reason] += 1
        if unnamed := 0 if put is None else put.bad - len(put.refused):
            self.reasons["not told by the server"] += unnamed
        self.bad = sum(self.reasons.values())
        self.read += count

    def refuse(self, reason: str, rows: int) -> None:
        """Add rows that cannot be read as those of a file can."""
        reason = _FILE.sub("a row", reason)[:LONGEST_REASON]
        if reason not in self.reasons and len(self.reasons) >= MOST_REASONS:
            reason = "other reasons"
        self.add(None, [(row, reason) for row in range(rows)], 0)

    def facts(self) -> dict[str, int]:
        """Return the counts."""
        return {name: getattr(self, name) for name in ("read", "taken", "seq", "late", "unchanged", "bad")}

    def __str__(self) -> str:
        """Return what has become of them, for people."""
        counts = {"late": self.late, "unchanged": self.unchanged, "bad": self.bad}
        more = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"{self.taken:,} rows up to {self.seq:,}{f' ({more})' if more else ''}" if self.taken else "no rows"


def most_said(reasons: Counter[str]) -> str:
    """Return the reasons that were said most often."""
    return ", ".join(f"{reason} ({count:,})" for reason, count in reasons.most_common(3))


def _tables(
    positions: Positions, index: RemoteIndex, said: Mapping[str, Any]
) -> Iterator[tuple[pa.Table, list[tuple[int, str]]]]:
    """Yield rows batch by batch as a server takes them, and which rows of the batch cannot be used, and why.

    Columns have the names of the input; those that an option names have the usual ones, which a server takes as well.
    """
    import numpy as np
    import pyarrow as pa

    from dtoss.names import position_names
    from dtoss.partition import numbers as arrow_of
    from dtoss.partition import values_of
    from dtoss.rows.input_columns import DELETED, REASON, attribute_column
    from pipelines.engines.local_rows import LocalRows

    source = positions.source or Columns()
    x, y = position_names(index.space.geographic)
    roles = {
        "id": "id" if "id" in said else source.id or "id", "x": x, "y": y,
        "t": "t" if "time" in said else source.time or "t",
    }  # fmt: skip
    rows = positions.frame.all_rows()
    assert isinstance(rows, LocalRows)
    for batch in (batch for task in rows.tasks for batch in task()):
        bad = values_of(batch.column(REASON).is_valid())
        at = np.flatnonzero(bad)
        reasons = batch.column(REASON).take(arrow_of(at)).to_pylist()
        good = batch.take(arrow_of(np.flatnonzero(~bad))) if len(at) else batch
        found = {name: good.column(column) for column, name in roles.items()}
        if DELETED in good.schema.names:
            found[DELETED] = good.column(DELETED)
        for name in positions.attributes:
            found.setdefault(name, good.column(attribute_column(name)))
        yield pa.table(found), list(zip(at.tolist(), reasons, strict=True))


def tell_files(
    paths: Sequence[str],
    index: RemoteIndex,
    said: Mapping[str, Any],
    patience: float,
    told: Told,
    begun: Callable[[], object] = lambda: None,
    upto: ReadUpto | None = None,
) -> bool:
    """Tell a server the rows of files, and return whether ``upto``, where their source goes on, went with the last.

    ``begun``: is called once files are known to be readable.
    """
    from pipelines.local_joins.first_look import look_at
    from pipelines.rows.read_files import read_positions

    named = Columns(**said)
    if index.string_ids and named.id_type is None:
        named = replace(named, id_type="text")
    positions = read_positions(None, look_at(paths, named), named)
    if not positions.timed:
        raise InputError("rows that are told need a time, which says which counts: name its column (--time)")
    begun()
    tables, went = _tables(positions, index, said), False
    following = next(tables, None)
    while following is not None:
        (table, local), following = following, next(tables, None)
        went = upto is not None and following is None and len(table) > 0
        source, offsets = (upto.source, upto.offsets) if upto is not None and went else ("", None)
        answer = index.put(table, patience=patience, source=source, offsets=offsets) if len(table) else None
        told.add(answer, local, len(table))
    return went
