"""Updates in, a current snapshot out: what moved is merged with what stands, and only that travels.

Also a script for spark-submit: ``spark-submit pipelines/cycle.py --updates DIR --store STORE``, with the options of
``dtoss rebuild --updates``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.chain import Commit, Conflict
from dtoss.commits.lease import Writer
from dtoss.commits.offsets import Ledger
from dtoss.errors import InputError
from dtoss.names import columns_of_manifest, renames
from dtoss.rows.input_columns import attribute_column, columns_of
from dtoss.rows.store_clock import Clock
from dtoss.snapshots.manifest import make_manifest
from dtoss.snapshots.manifest_fields import Shape
from dtoss.snapshots.read_file import ledger_of, write_ledger
from dtoss.snapshots.retention import snapshot_of
from dtoss.snapshots.store import Store
from dtoss.witnesses import USUAL_WITNESSES, Moment
from pipelines.cycles.arrivals import Arrivals, Place
from pipelines.cycles.build_tasks import BuildPlan
from pipelines.cycles.collect import Target, collect, profile_of_tallies, timely, within
from pipelines.cycles.column_agreement import agree_columns
from pipelines.cycles.current_state import Stands, bounds_of_cycle, everybody, nothing_stands, stands_of
from pipelines.cycles.merge_tasks import compare
from pipelines.cycles.partitions import why_anew
from pipelines.cycles.spread import USUAL, Here, WorkContext, spread_work
from pipelines.cycles.store_now import HeardQuery, HeardTimes, hear_times, moment_after, moment_of, said_of
from pipelines.cycles.upsert_rules import Ruling, UpsertRules, remember, rule
from pipelines.cycles.write_snapshot import SnapshotFiles, built_anew, plan_of, renew_snapshot
from pipelines.engines.progress import Stages
from pipelines.options.snapshot_options import Merging, SnapshotOptions
from pipelines.rows.position_frame import (
    Positions,
    quarantine,
    screen_positions,
    source_of,
    taken_of,
    time_of,
    without_forgotten,
)
from pipelines.rows.read_files import positions_in
from pipelines.rows.survey import Profile, judge
from pipelines.spark.session import configure_session, running_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dtoss.frames.arrow_tables import Frame

TRIES = 3
"""How often a cycle is made where others commit before it."""


@dataclass(frozen=True)
class _Rules:
    """What is wanted of a cycle, and of its updates."""

    options: SnapshotOptions
    columns: Mapping[str, Any]  # What columns of a frame mean, where it is not as the store's last rebuild had it
    ledger: Callable[[Ledger], Ledger] | None
    anew: bool

    @property
    def deletes(self) -> bool:
        """Whether rows may delete their objects."""
        return self.columns.get("deleted") is not None


def cycle(
    updates: DataFrame | Frame | Positions | None,
    store: str,
    *,
    deleted: str | None = None,
    deleted_for: float | None = 3600.0,
    expire: float | None = None,
    now: Any = None,
    clock: str = "wall",
    witnesses: str = USUAL_WITNESSES,
    max_ahead: float | None = 300.0,
    missing: str = "error",
    pivots: str = "auto",
    in_place_until: float = 1.0,
    max_bad: float = 0.10,
    wrap: bool = False,
    min_objects: int = 0,
    max_shrink: float | None = None,
    allow_empty: bool = False,
    keep: int | None = 3,
    seed: int = 0,
    keep_for: float | None = None,
    ledger: Callable[[Ledger], Ledger] | None = None,
    first: Mapping[str, Any] | None = None,
    anew: bool = False,
    stages: Stages | None = None,
    warn: Callable[[str], None] | None = None,
    lock: Writer | None = None,
    lease: bool = True,
    here: Here = USUAL,
) -> dict[str, Any]:
    """Merge updates with the current snapshot, make the result current, and return its manifest.

    Of all rows of an id, stored or updates, the one with the greatest (t, x, y, attributes) stands. So neither the
    order of updates, nor how they are split into cycles, nor that some are read twice changes what stands in the end.
    A row is the whole object.

    Parameters
    ----------
    updates
        A DataFrame of Spark's, or a frame of this process as :func:`dtoss.build` takes them, with the columns that the
        store was built of; or positions; None where only time has passed.
    store
        Path or URI of the store. Where it has no snapshot, the updates make the first one.
    deleted
        The column that says of a row whether it deletes its object; at equal times the deletion wins.
    deleted_for
        Seconds for which a deletion is remembered; None for ever. Once there was one, rows older than this are too late
        where their object does not stand.
    expire
        Seconds after which an object goes that was not heard of; None for never.
    now
        The moment at which the cycle happens: ISO 8601 (UTC), or a number as the times; the clock's when None.
    clock
        "wall", or "data" for the time that enough objects have reached (:mod:`dtoss.witnesses`). A ``now`` goes before
        both.
    witnesses
        How many are enough, with ``clock="data"``: a share such as "1%", at least three, or a count such as "3".
    max_ahead
        Seconds after now from which on a row is set aside, because its clock is wrong; None for never. With
        ``clock="data"`` there is no such row.
    missing
        "error", or "null" where the updates may lack a column of the store.
    pivots
        "keep", "balanced" chooses new ones, "auto" does that when the last ones are good no more
        (:mod:`pipelines.cycles.partitions`).
    in_place_until
        With more updates than this share of the objects everything is built anew, and comes out the same.
    max_bad, wrap, min_objects, max_shrink, allow_empty, keep, seed
        As :func:`pipelines.rebuild.rebuild`.
    keep_for
        Seconds for which a snapshot stays after another one has become current; ten minutes on object stores, where
        readers open files late, and none elsewhere, when None.
    ledger
        Makes of what of files and streams the last snapshot contains what this one does; it contains the same when
        None. It is asked again where others commit first: what they have rolled back is then not taken for read.
    first
        Arguments of :func:`pipelines.rebuild.rebuild` for a store that has no snapshot: ``crs``, ``partitions``.
    anew
        Nothing stands: build from the updates alone.
    stages
        Times the stages and shows them.
    warn
        Is told what looks wrong but is legal; what could not be removed goes to stderr when None.
    lock
        The right to write to the store, if the caller has it already.
    lease
        Take that right where the caller has none. Without it several may work at once, and each but one works again.
    here
        How much this process does itself.

    Returns
    -------
    dict
        The manifest; ``cycle`` says what became of the updates.

    Raises
    ------
    InputError
        If the updates do not fit the store, too many rows are bad, or too few objects would be left.
    StoreError
        If the store has no times or is of an older format, another process writes, or others committed first, three
        times in a row.
    ValueError
        If an argument is out of its bounds.

    Notes
    -----
    Dissertation, sections 3.4.6 and 3.4.11. What a cycle costs: reading the updates, comparing each partition's ids
    with theirs, O(n log u), and building the partitions in whose knowledge something has changed, O(n). Others are
    linked. The files are byte for byte those of a rebuild of the merged rows with the same pivots, lambdas and bounds.
    """
    first = {"seed": seed} | dict(first or {})
    options = SnapshotOptions.of(
        deleted_for=deleted_for, expire=expire, now=now, clock=clock, witnesses=witnesses, max_ahead=max_ahead,
        missing=missing, pivots=pivots, in_place_until=in_place_until, max_bad=max_bad, wrap=wrap,
        min_objects=min_objects, max_shrink=max_shrink, allow_empty=allow_empty, keep=keep, keep_for=keep_for,
        lease=lease, first=first,
    )  # fmt: skip
    columns = {name: first[name] for name in ("id", "x", "y", "time") if first.get(name)}
    columns |= {"attributes": first["columns"]} if first.get("columns") else {}
    columns |= {"deleted": deleted}
    work = WorkContext(stages, warn, lock, here)
    return merge(updates, store, options, work, columns=columns, ledger=ledger, anew=anew)


def merge(
    updates: DataFrame | pa.Table | Positions | None,
    store: str,
    options: SnapshotOptions,
    work: WorkContext,
    *,
    columns: Mapping[str, Any],
    ledger: Callable[[Ledger], Ledger] | None = None,
    anew: bool = False,
) -> dict[str, Any]:
    """Make a cycle, and return the manifest of its snapshot, as :func:`cycle`; lets positions go.

    ``columns``: fields of :class:`dtoss.rows.input_columns.Columns`: of a frame, what is not as the store's last
    rebuild had it; of positions, ``deleted``.
    """
    warn, keeping = work.warn_or_stderr, options.keeping
    home = Store(str(store)).absolute
    rules = _Rules(options, columns, ledger, anew)
    held = work.lock or home.writer(warn, lease=keeping.lease)
    try:
        home.clear(None, lock=held, warn=warn)
        for attempt in range(TRIES):
            head = home.head()
            try:
                manifest = _attempt(updates, home, head, rules, work, held)
                break
            except Conflict as error:
                if attempt == TRIES - 1:
                    raise
                warn(f"{error}: the updates are merged with that")
            except Exception:
                # without the lease others may clear what this cycle still reads
                if keeping.lease or attempt == TRIES - 1 or _number(home.head()) == _number(head):
                    raise
                warn(f"{home.path} was committed to meanwhile: the updates are merged with that")
        home.tidy(keeping.keep, held, warn, keep_for=keeping.keep_for)
    finally:
        if held is not work.lock:
            held.release()
        if isinstance(updates, Positions):
            updates.release()
    return manifest


def _attempt(
    updates: DataFrame | Frame | Positions | None,
    home: Store,
    head: Commit | None,
    rules: _Rules,
    work: WorkContext,
    held: Writer,
) -> dict[str, Any]:
    """Make one cycle after a commit."""
    merging, reading = rules.options.merging, rules.options.reading
    # a store of an earlier version has snapshots and no commits
    old = head is None and bool(home.snapshots())
    last = None if head is None and not old else home.manifest(None if head is None else snapshot_of(head))
    positions = _positions(updates, last, rules)
    if positions is not None:
        positions = without_forgotten(positions, home.path)
    session = _session(positions)
    stages = work.stages or Stages(session)
    if last is None or rules.anew:
        if positions is None:
            raise InputError(f"nothing stands in {home.shown} and there are no updates: name some (--updates)")
        stands = nothing_stands(positions, reading.space_of(positions.crs), rules.options.wishes)
    else:
        stands = stands_of(home, last)
    clock = _clock(stands, merging)
    pairs = tuple((attribute_column(name), name) for name in stands.order)
    types = {} if stands.manifest is None else columns_of_manifest(stands.manifest)
    if positions is not None:
        given = stands.wishes.bounds
        positions = within(screen_positions(positions, stands.space, reading.wrap), given)
        positions, pairs = agree_columns(positions, stands.manifest, stands.order, merging.missing)
        types = {name: positions.types[column] for column, name in pairs}
    choose = _why_chosen(stands, merging)
    with home.fresh(work.warn_or_stderr) as snapshot:
        place = Place(home, snapshot)
        place.make()
        arrivals, profile = Arrivals(place), profile_of_tallies([], clock.scale)
        with stages.stage("updates"):
            if positions is not None:
                to = (stands.regions, stands.reach) if choose is None else everybody(stands.space)
                target, carried = Target(place, *to, stands.space), [column for column, _ in pairs]
                arrivals, profile = collect(positions, target, carried, clock, work.here.update_bytes)
                judge(profile, stands.space, reading.max_bad, work.warn_or_silent)
        why = choose or _too_many(len(arrivals), stands.objects, merging.in_place_until)
        box = bounds_of_cycle(stands, profile.low, profile.high)
        names = tuple(name for _, name in pairs)
        build = BuildPlan(home, snapshot, stands.space, stands.regions, stands.reach, box, names)
        sizes = [float(entry["objects"] + entry["replicas"]) for entry in stands.entries]
        deletions = stands.deletions
        rows = sum(sizes) + len(arrivals) + (0 if deletions is None else deletions.entry["rows"])
        here = home.local and rows <= work.here.compared

        def alone(work: Callable[[], Any]) -> Any:
            """Return what is done in one task."""
            return spread_work(session, lambda _: [work()], [0], [1.0], here=here)[0]

        moment = None
        if clock.now is None:
            timeless = plan_of(stands, build, arrivals, replace(clock, expire=None), pairs, types)

            def look(asked: HeardQuery) -> list[HeardTimes]:
                return spread_work(session, partial(hear_times, timeless, asked), range(len(sizes)), sizes, here=here)

            with stages.stage("clock"):
                moment = moment_after(
                    moment_of(stands.manifest, clock.scale),
                    arrivals,
                    stands.objects,
                    clock.scale,
                    merging.witnesses or USUAL_WITNESSES,
                    merging.expire,
                    look,
                    alone,
                )
            clock = replace(clock, now=-math.inf if moment is None else moment.now)
        plan = plan_of(stands, build, arrivals, clock, pairs, types)
        with stages.stage("compare"):
            compared = spread_work(session, partial(compare, plan), range(len(sizes)), sizes, here=here)
            found = sorted((one for some in compared for one in some.findings), key=lambda one: one.number)
            upsert = UpsertRules(arrivals, deletions, clock, rules.deletes, bool(sizes))
            judge_file = partial(rule, upsert, [some.verdicts for some in compared])
            many = [float(parcels.rows) for parcels in arrivals.parcels]
            ruling = Ruling.of(found, spread_work(session, judge_file, range(len(many)), many, here=here))
        counts = ruling.counts
        kept = stands.objects + counts["added"] - counts["deleted"] - counts["expired"]
        before = None if last is None else last["objects"]
        guards = replace(rules.options.guards, allow_empty=True) if before == 0 else rules.options.guards
        guards.check(kept, before, work.warn_or_silent, _why_none(clock, counts))
        if why is None:
            always = names != stands.order or _bounds_differ(box, stands.bounds)
            made = renew_snapshot(session, plan, ruling, found, always, stands, stages, work.here)
        else:
            made = built_anew(session, plan, ruling, found, stands, types, choose is None, stages)
        remembers = deletions is not None or (rules.deletes and len(arrivals) > 0)
        tombstones = alone(partial(remember, upsert, ruling.deletions)) if remembers else None
        rejected = []
        if positions is not None and profile.good < profile.read:
            with stages.stage("quarantine"):
                rejected = quarantine(timely(positions, clock), home, snapshot, profile.read - profile.good)
        place.clear()
        tally = _Tally(
            profile, len(arrivals), counts, kept, clock, _latest(clock, stands, arrivals), moment, choose, why
        )
        manifest = _manifest(snapshot, stands, positions, types, box, made, tally, stages)
        manifest["tombstones"], manifest["quarantine"] = tombstones, rejected
        read = ledger_of(home, stands.manifest)  # none of it counts where nothing stood
        read = read if rules.ledger is None else rules.ledger(read)
        manifest["ledger"] = write_ledger(home, snapshot, read, stands.manifest)
        home.finish(snapshot, manifest, held, after=head)
    return manifest


@dataclass(frozen=True)
class _Tally:
    """What became of the updates of a cycle, and why it was made as it was."""

    profile: Profile
    arrived: int
    counts: Mapping[str, int]
    kept: int
    clock: Clock
    watermark: float
    moment: Moment | None
    choose: str | None
    why: str | None


def _manifest(
    snapshot: str,
    stands: Stands,
    positions: Positions | None,
    types: dict[str, str],
    bounds: NDArray[np.float64] | None,
    made: SnapshotFiles,
    tally: _Tally,
    stages: Stages,
) -> dict[str, Any]:
    """Return the manifest of what a cycle has made; what is not there yet is empty."""
    shape, profile = Shape.of(made.entries), tally.profile
    if shape.objects != tally.kept:
        raise RuntimeError(
            f"{shape.objects:,} objects were built where {tally.kept:,} stand: nothing has become current"
        )
    first = stands.manifest is None and positions is not None
    manifest = make_manifest(
        snapshot,
        datetime.now(UTC).isoformat(timespec="seconds"),
        stands.space,
        made.regions,
        made.reach,
        bounds,
        made.entries,
        made.borders,
        id_type="string" if stands.string_ids else "int64",
        columns=types,
        time=time_of(positions) if first and positions is not None else stands.time,
        clock=_said_clock(stands, tally),
        policy=_policy(stands, shape, bounds, tally.choose is not None),
        cycle={
            **tally.counts,
            "objects": tally.kept,
            "linked": made.linked,
            "built": len(made.entries) - made.linked,
            "pivots": "kept" if tally.choose is None else "chosen",
            "why": tally.why,
            "largest": round(shape.largest, 6),
        },
        source=source_of(positions) if first and positions is not None else stands.source,
        parameters=stands.wishes.facts() if stands.manifest is None else stands.manifest["parameters"],
        counts={
            "read": profile.read,
            "kept": shape.objects,
            "duplicates": profile.good - tally.arrived,
            "quarantined": {reason: n for reason, n in profile.bad.items() if n},
            **({} if positions is None else positions.dropped_rows),
        },
        timings={name: round(seconds, 3) for name, seconds in stages.seconds.items()},
    )
    manifest["renamed"] = stands.renamed if positions is None else stands.renamed | renames(positions.attributes)
    manifest["input"] = profile.extent | taken_of(positions)
    return manifest


def _positions(
    updates: DataFrame | Frame | Positions | None, last: dict[str, Any] | None, rules: _Rules
) -> Positions | None:
    """Return updates as positions; a frame's columns mean what those of the store's last rebuild meant."""
    if updates is None or isinstance(updates, Positions):
        return updates
    columns = columns_of(last, {name: said for name, said in rules.columns.items() if name != "deleted"})
    return positions_in(updates, replace(columns, deleted=rules.columns.get("deleted")))


def _number(commit: Commit | None) -> int:
    return 0 if commit is None else commit.number


def _session(positions: Positions | None) -> SparkSession | None:
    """Return the Spark that has the updates, or runs; None where all is done in this process."""
    if positions is not None:
        return None if positions.session is None else configure_session(positions.session)
    return running_session()


def _clock(stands: Stands, merging: Merging) -> Clock:
    """Return what now is, as far as it is known before the updates are read."""
    kind, now = merging.clock, None
    if merging.now is not None:
        kind, now = "given", stands.scale.read(merging.now)
    elif kind == "wall":
        now = stands.scale.now()
    return Clock(stands.scale, now, kind, merging.expire, merging.deleted_for, merging.max_ahead)


def _latest(clock: Clock, stands: Stands, arrivals: Arrivals) -> float:
    """Return the latest time that ever arrived."""
    said = ((stands.manifest or {}).get("clock") or {}).get("watermark")
    watermark = -math.inf if said is None else clock.scale.read(said)
    newest = [pa.repeat(parcels.newest, 1) for parcels in arrivals.parcels]
    return max(watermark, *clock.scale.numbers(pa.concat_arrays(newest)).tolist()) if newest else watermark


def _said_clock(stands: Stands, tally: _Tally) -> dict[str, Any]:
    """Return what a manifest says of the time; what witnesses have said stays known where others tell the time."""
    clock, scale = tally.clock, tally.clock.scale
    moment = tally.moment or moment_of(stands.manifest, scale)
    said = {"kind": clock.kind, "now": scale.said(clock.now), "watermark": scale.said(tally.watermark)}
    return said if moment is None else said | {"witnesses": said_of(moment, scale)}


def _why_none(clock: Clock, counts: Mapping[str, int]) -> str | None:
    """Return why no object would be left, and the way out, where it is that all are too old; None where it is not."""
    outdated, expired = counts["outdated"], counts["expired"]
    if clock.kind != "wall" or not outdated + expired:
        return None
    too_old = f"{outdated:,} updates are outdated and {expired:,} objects have expired"
    now = clock.scale.said(math.floor(clock.moment))
    return (
        f"{too_old}, as it is {now} by this machine's clock; --clock data takes the time from the rows, as a replay of "
        "the past wants it"
    )


def _why_chosen(stands: Stands, merging: Merging) -> str | None:
    """Return why pivots are chosen anew; None where they are kept."""
    if stands.manifest is None:
        return "nothing stood"
    if merging.pivots == "balanced":
        return "it was asked for"
    return None if merging.pivots == "keep" else why_anew(stands.manifest)


def _too_many(updates: int, objects: int, until: float) -> str | None:
    if updates > until * objects:
        return f"{updates:,} updates are more than {100 * until:g}% of {objects:,} objects"
    return None


def _bounds_differ(one: NDArray[np.float64] | None, other: NDArray[np.float64] | None) -> bool:
    return one is not None and other is not None and not np.array_equal(one, other)


def _policy(stands: Stands, shape: Shape, bounds: NDArray[np.float64] | None, chosen: bool) -> dict[str, Any]:
    last = {} if stands.manifest is None else stands.manifest.get("policy") or {}
    facts = shape.facts(bounds)
    if last.get("bounds") is not None:
        # bounds grow in steps of what they were at first
        facts["bounds"] = last["bounds"]
    return facts if chosen or not last else last


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("rebuild")
