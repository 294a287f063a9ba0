"""What is wanted of a job that goes on with what arrives: how it reads it, and what watches and windows are to do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dtoss.names import DEFAULT_NAME
from dtoss.option import Option, check_count
from dtoss.windows.measures import MEASURES
from pipelines.options.said_amounts import WITNESSES, duration, names_of


@dataclass(frozen=True)
class Beats:
    """When a loop looks for what has arrived."""

    title: ClassVar[str] = "When"
    # Seconds; a beat that is missed is left out
    every: Annotated[float, Option("From cycle to cycle: 60s, 5min.", "TIME", parse=duration(None), shown="60s")] = 60.0
    cycles: Annotated[int | None, Option("Looks after which to end; 1 for cron.", more={"min": 1})] = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.every) and self.every > 0.0):
            raise ValueError(f"every is {self.every!r}: seconds above 0 are wanted")
        check_count("cycles", self.cycles, 1)


@dataclass(frozen=True)
class Arriving:
    """When what has arrived is looked at, and how much of it at once."""

    title: ClassVar[str] = "When"
    once: Annotated[bool, Option("Read what there is, and end.")] = False
    clock: Annotated[
        str,
        Option(
            "What moves the time where no rows come: nothing, or this machine's clock.", written=Literal["data", "wall"]
        ),
    ] = "data"
    max_rows_per_batch: Annotated[
        int | None,
        Option("Rows of a batch, about, of whole files; all there are if not given.", more={"min": 1}),
    ] = None


@dataclass(frozen=True)
class WatchOptions:
    """What is wanted of a watch, :func:`pipelines.watch.watch_files`; amounts of time are seconds."""

    title: ClassVar[str] = "What is watched"
    every: Annotated[
        float, Option("Time from look to look: 2s, 1min.", "TIME", parse=duration(None, "--every"), shown="2s")
    ] = 2.0
    beat: Annotated[
        float,
        Option(
            "Heartbeat: without rows, take changes of subscriptions and let objects expire so often.",
            "TIME",
            parse=duration(None, "--beat"),
            shown="10s",
        ),
    ] = 10.0
    text: Annotated[str | None, Option("Column of text, which words are looked for in.", "COLUMN")] = None
    carry: Annotated[tuple[str, ...], Option("Columns that events carry along.", "NAMES", parse=names_of)] = ()
    messages: Annotated[bool, Option("Rows are messages, not positions of objects: inside only.")] = False
    expire: Annotated[
        float | None,
        Option(
            "Objects that were not heard of for so long leave: 15min, 1h.", "TIME", parse=duration(option="--expire")
        ),
    ] = None
    witnesses: Annotated[str | None, WITNESSES] = None
    max_ahead: Annotated[
        float | None,
        Option(
            "Rows so long after now are set aside: 5min, or off.",
            "TIME",
            parse=duration(option="--max-ahead"),
            shown="5min",
        ),
    ] = 300.0
    max_gap: Annotated[
        float,
        Option(
            "Rows of an object that are further apart have no way from one to the other, which may cross a place.",
            "TIME",
            parse=duration(None, "--max-gap"),
            shown="10min",
        ),
    ] = 600.0
    missing: Annotated[
        str | None,
        Option(
            "What a column that conditions name, and a file lacks, is: an error, null, or as it was; null if not "
            "given, with a warning.",
            written=Literal["error", "null", "keep"],
        ),
    ] = None
    retain: Annotated[
        float | None, Option("Remove events that are older: 7d, 12h.", "TIME", parse=duration(option="--retain"))
    ] = None


@dataclass(frozen=True)
class SpreadWishes:
    """How rows of a watch are spread over workers."""

    title: ClassVar[str] = "How rows are spread"
    strategy: Annotated[
        str | None, Option("Spread rows over workers by it: ours, swarm, kd, replicated, ...", "NAME")
    ] = None
    workers: Annotated[int | None, Option("How many; with --strategy.", more={"min": 1})] = None
    rebalance: Annotated[str, Option("When the layout may change: round (15 s), N (batches), off.", "WHEN")] = "round"
    memory: Annotated[str | None, Option("Of a worker, for --strategy auto: 4g, 500m.", "SIZE")] = None


@dataclass(frozen=True)
class Questions:
    """Which subscriptions stand: those of files, or of a watch."""

    title: ClassVar[str] = "Questions"
    subscriptions: Annotated[
        list[str] | None,
        Option("File of subscriptions; may be repeated.", "FILE"),
    ] = None
    store: Annotated[str | None, Option("Take those of a watch of this store.")] = None
    watch: Annotated[str, Option("Name of that watch.", "NAME")] = DEFAULT_NAME


@dataclass(frozen=True)
class StreamColumns:
    """Which columns mean what; None takes ``id``, ``lon`` or ``x``, ``lat`` or ``y``, ``t``, and no text."""

    title: ClassVar[str] = "Columns of the stream"
    id: Annotated[str | None, Option("Column of ids.", "COLUMN")] = None
    x: Annotated[str | None, Option("Column of lon or x.", "COLUMN")] = None
    y: Annotated[str | None, Option("Column of lat or y.", "COLUMN")] = None
    time: Annotated[str | None, Option("Column of times.", "COLUMN")] = None
    text: Annotated[str | None, Option("Column of text.", "COLUMN")] = None


@dataclass(frozen=True)
class WindowSpec:
    """Which windows are wanted, as texts that :func:`dtoss.windows.spec.spec_of` reads."""

    title: ClassVar[str] = "Which windows"
    lengths: Annotated[
        str | None, Option("Of the windows: 5min,1h,24h; without any of these options those of before.", "TIMES")
    ] = None
    slide: Annotated[str | None, Option("Time from one end to the next; 1min if not given.", "TIME")] = None
    by: Annotated[
        str | None,
        Option("Keys: partition, sites:FILE, polygons:FILE.geojson, h3:RES; partition if not given."),
    ] = None
    measures: Annotated[
        str | None,
        Option(f"{', '.join(MEASURES)}; rows,objects if not given.", "NAMES"),
    ] = None
    late: Annotated[
        str | None, Option("Rows so long behind the watermark still count; 10min if not given.", "TIME")
    ] = None
    delay: Annotated[str | None, Option("The watermark stays so long behind; 0s if not given.", "TIME")] = None
    max_gap: Annotated[str | None, Option("Rows further apart are no move; 10min if not given.", "TIME")] = None
    expire: Annotated[
        str | None, Option("An object is here so long after its last row; for ever if not given.", "TIME")
    ] = None
    witnesses: Annotated[
        str | None, Option("Objects that move the watermark: 1%, or a count; 1% if not given.", "SHARE")
    ] = None
    max_ahead: Annotated[str | None, Option("Rows so long after now are set aside; 5min if not given.", "TIME")] = None
    max_speed: Annotated[float | None, Option("Faster moves, in metres a second, are jumps and no moves.", "SPEED")] = (
        None
    )


@dataclass(frozen=True)
class CountingOptions:
    """What is wanted of a run of windows, :func:`pipelines.windows.count_files`, beside which they are."""

    title: ClassVar[str] = "How they are counted"
    explain: Annotated[bool, Option("Print the steps, what is shuffled and why, and run nothing.")] = False
    every: Annotated[
        float, Option("Time from look to look: 10s, 1min.", "TIME", parse=duration(None, "--every"), shown="10s")
    ] = 10.0
    rebuild: Annotated[
        tuple[str, str] | None,
        Option(
            "Count the ends that rows from FROM on and before TO can change anew, from the files that are there.",
            "FROM TO",
        ),
    ] = None
    replace: Annotated[
        bool,
        Option("Let other windows under this name, or other pivots, take over without a gap, once they are whole."),
    ] = False
    retain: Annotated[
        str | None,
        Option(
            "Results of ends so long behind the watermark are removed, by whole hours; all are kept if not given.",
            "TIME",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option("Tasks of a batch; as many as there are cores if not given.", more={"min": 1, "max": 256}),
    ] = None
    rebalance: Annotated[
        str,
        Option("Time of rows after which groups of objects may move between workers; off leaves them.", "TIME"),
    ] = "30min"
    move_budget: Annotated[str, Option("State that moves at once: bytes, or such as 5%.")] = "1%"
