"""Standing questions in this process: subscriptions that rows are held against, without any store.

Events without a store: what a batch does with its rows, on rows before that a caller has.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.offsets import Source
from dtoss.conditions.program import Case, Program, parse_program
from dtoss.errors import InputError
from dtoss.frames.arrow_tables import arrow_of
from dtoss.geometry.space import Space, space_of
from dtoss.names import position_names
from dtoss.watch.index.build_index import build
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.matcher import MOST_MATCHES, StandingMatcher
from dtoss.watch.matching.matches import Matches, join_pieces
from dtoss.watch.processing.event_table import (
    CROSS_COLUMNS,
    OTHER_COLUMN,
    OTHER_PLACE,
    EventWriter,
    carried_as,
    event_schema,
)
from dtoss.watch.processing.last_rows import STAY_TYPE, Before, keys_of
from dtoss.watch.processing.object_rows import KnownRows, is_speed_wanted, order_rows, tracks_of
from dtoss.watch.processing.pair_events import moves_of, write_pairs
from dtoss.watch.processing.stays import with_stays
from dtoss.watch.processing.transitions import by_id, write_events, write_messages
from dtoss.watch.processing.watch_clock import Clock
from dtoss.watch.processing.watch_plan import USUAL_GAP, Options, Plan
from dtoss.watch.rows_of_frames import ID_OF_ROWS, FrameRows, given_rows, times_as, with_types
from dtoss.watch.subscription import ANY_EVENT, AROUND, PAIR_EVENTS, STAYS
from dtoss.watch.subscriptions.forms import instant_of
from dtoss.watch.subscriptions.subscription_files import place_geometries
from dtoss.watch.subscriptions.validation import Against, check_subscriptions, checked_table
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import SPEED_COLUMN, Rows, Settings

_MOST_SCHEMAS = 8
"""Kinds of rows for which an index is kept, where the types of columns were not said."""
_NAMED = 3


@dataclass(frozen=True)
class Watch:
    """Subscriptions that rows are held against; immutable, and shared by threads. :func:`subscriptions` makes it.

    Parameters
    ----------
    table
        Of :data:`dtoss.watch.subscription.SUBSCRIPTION_SCHEMA`: a row for each subscription, in the order
        in which they were given.
    space
        Of places and rows.
    schema
        Types of the columns that conditions name; None takes those of the rows.
    text
        The column of the rows that holds their texts; None for none.
    """

    table: pa.Table
    space: Space
    schema: Mapping[str, pa.DataType] | None = None
    text: str | None = None
    _kept: dict[Any, Standing] = field(default_factory=dict, repr=False, compare=False)
    _turn: Any = field(default_factory=Lock, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of the subscriptions, texts (n,): those of matches are ``watch.ids[matches.subscription]``."""
        return np.asarray(self.table.column("id").to_numpy())

    def match(self, rows: Any, *, clock: Any = None) -> Matches:
        """Return which subscriptions hold which rows, whatever events they want. Cost O(n + m log m) for m matches.

        Parameters
        ----------
        rows
            Columns ``lon`` and ``lat``, or ``x`` and ``y``; ``id`` and all that conditions name: a table of Arrow, a
            DataFrame, a dictionary of arrays.
        clock
            Seconds since 1970, or a datetime: subscriptions that have expired by then do not count. None for all.

        Raises
        ------
        TypeError
            If the rows are no table.
        InputError
            If a column is missing that a condition or words read, or is of another type.
        ValueError
            If a position is missing or no place of the CRS, or the clock is no time.

        Examples
        --------
        >>> watch = subscriptions([{"id": "station", "circle": [8.66, 50.11, 400.0]}])
        >>> found = watch.match({"lon": [8.661, 8.7], "lat": [50.111, 50.1]})
        >>> found.row.tolist(), watch.ids[found.subscription].tolist(), found.distance.round(1).tolist()
        ([0], ['station'], [132.1])
        """
        given = self._given(rows)
        return join_pieces(0, len(given.rows), list(self._pieces(given, MOST_MATCHES, clock)))

    def pieces(self, rows: Any, most: int = MOST_MATCHES, *, clock: Any = None) -> Iterator[Matches]:
        """Yield what :meth:`match` returns, of consecutive rows in turn, so that memory has a bound.

        Parameters
        ----------
        rows
            As in :meth:`match`.
        most
            Matches at a time, about; a row that has more is a piece of its own.
        clock
            As in :meth:`match`.

        Raises
        ------
        TypeError
            As in :meth:`match`.
        InputError
            As in :meth:`match`.
        ValueError
            As in :meth:`match`.
        """
        yield from self._pieces(self._given(rows), most, clock)

    def events(
        self, before: Any, rows: Any, *, carry: Sequence[str] = (), clock: Any = None, max_gap: float = USUAL_GAP / 1e6
    ) -> pa.Table:
        """Return what the subscriptions are told of rows: what is entered, left, crossed, dwelt in, held by each row.

        Parameters
        ----------
        before
            Rows before, of which the last of each object counts, and all of them for a ``dwell``, a ``margin`` or
            ``near``; None where there were none.
        rows
            As in :meth:`match`, with ``id`` and ``t``: times, or seconds since 1970, in any order. A row that is not
            later than the one before is left out, and of several at one time the greatest (x, y, attributes) stays.
            Without ``t`` they are messages, for which there is ``inside`` only.
        carry
            Columns of the rows that stand beside their events.
        clock
            As in :meth:`match`.
        max_gap
            Seconds up to which there is a way from a row of an object to its next one, which may ``cross`` a place.

        Returns
        -------
        pyarrow.Table
            Of columns kind (dwell, cross, leave, enter, inside), subscription, object, t, lon and lat (x and y),
            distance in metres (units of the CRS) to the centre of a circle, null else and of cross, dwell and leave,
            meta as JSON; t_before and t_cross where a subscription wants cross: the time of the row before, and when
            the place was met; near, the other object, where one wants pairs, whose events are the first; and what is
            carried, with an underscore behind a name of these; by object, time, kind and the order of the
            subscriptions. Where one wants pairs, ``crowded`` in the metadata is how many an object had no room for.

        Raises
        ------
        TypeError
            As in :meth:`match`.
        InputError
            As in :meth:`match`, or if enter, leave or cross are wanted of rows without times, or an id or a time is
            missing.
        ValueError
            As in :meth:`match`, or if ``max_gap`` is no positive number.

        Notes
        -----
        The same functions as in a batch of ``dtoss watch``. Cost O(n log n + m).

        Examples
        --------
        >>> watch = subscriptions([{"id": "pier", "box": [1.0, 1.0, 2.0, 2.0], "events": ["enter", "leave"]}])
        >>> first = {"id": [7], "t": [0], "lon": [0.5], "lat": [1.5]}
        >>> later = {"id": [7, 7], "t": [60, 120], "lon": [1.5, 2.5], "lat": [1.5, 1.5]}
        >>> watch.events(first, later).select(["kind", "subscription", "object", "t"]).to_pylist()[0]
        {'kind': 'enter', 'subscription': 'pier', 'object': 7, 't': 60.0}
        >>> watch.events(first, later)["kind"].to_pylist()
        ['enter', 'leave']
        """
        if not 0.0 < max_gap < math.inf:
            raise ValueError(f"max_gap is {max_gap:g} s: a finite number above 0 is wanted")
        given = self._given(rows, carry)
        timed = given.rows.t is not None
        if not timed:
            self._check_speed(given)
        standing = self.built({SPEED_COLUMN: pa.float64(), **given.types} if timed else given.types)
        moving = (standing.events & (PAIR_EVENTS | STAYS)) != 0
        if not timed and moving.any():
            name = self.ids[int(moving.argmax())]
            raise InputError(
                f"subscription {name!r} wants enter, leave, dwell or cross, and the rows have no column 't' of times"
            )
        last = None
        if timed:
            self._check_ids(given, "rows")
            if before is not None:
                earlier = self._given(before)
                self._check_ids(earlier, "rows before")
                if earlier.rows.t is None:
                    raise InputError("rows before have no column 't' of times")
                last = self._as_those(earlier, given, standing)
        ids = given.rows.ids
        if last is not None and ids is not None and last.ids is not None and last.ids.type != ids.type:
            raise InputError(f"ids of rows before are {last.ids.type}, and those of rows {ids.type}")
        kinds = {name: column.type for name, column in given.rows.attributes.items()}
        time = None if given.time is None else "double" if pa.types.is_floating(given.time) else "timestamp"
        id_type = None if ids is None else "int64" if pa.types.is_integer(ids.type) else "string"
        settings = Settings(self.space, id_type, time, self.text, not timed, kinds)
        options = Options(carry=tuple(carry), max_gap=round(max_gap * 1e6))
        return events_of(standing, settings, last, given, options, _instant(clock))

    @staticmethod
    def _check_ids(given: FrameRows, whose: str) -> None:
        try:
            check_ids(given.rows, whose)
        except ValueError as error:
            raise InputError(str(error)) from None

    @staticmethod
    def _as_those(earlier: FrameRows, given: FrameRows, standing: Standing) -> Rows:
        """Return rows before with the columns that memberships are made of, in the types of the rows."""
        read = standing.columns_kept if standing.stays is None else standing.columns_named
        kinds = {name: column.type for name, column in given.rows.attributes.items() if name in read}
        for name in kinds:
            if name not in earlier.rows.attributes:
                raise InputError(f"rows before have no column {name!r}, which a condition reads")
        return with_types(earlier.rows, kinds)

    def _check_speed(self, given: FrameRows) -> None:
        """Check that no condition needs a row before, where there is none."""
        if SPEED_COLUMN in self._columns and SPEED_COLUMN not in given.types:
            raise InputError(
                f"a condition names {SPEED_COLUMN!r}, and the rows have no such column: it is made of two rows of an "
                "object, ask for events of rows with id and t"
            )

    @cached_property
    def _columns(self) -> frozenset[str]:
        """The columns that conditions name."""
        stays = [json.loads(text) for text in self.table.column("stay").unique().to_pylist() if text is not None]
        texts = [*self.table.column("where").unique().to_pylist(), *(one.get("near", {}).get("where") for one in stays)]
        return frozenset().union(*(columns_in(text) for text in texts if text is not None))

    def _given(self, rows: Any, carry: Sequence[str] = ()) -> FrameRows:
        named = self._columns
        given = given_rows(rows, self.space, self.text, {*named, *carry})
        made = {SPEED_COLUMN} - set(given.types)
        for name in {*carry} - (made if given.rows.t is not None else set()):
            if name not in given.rows.attributes:
                raise InputError(f"there is no column {name!r} to carry along; there are {', '.join(given.types)}")
        if self.schema is None:
            return given
        wanted = {name: kind for name, kind in self.schema.items() if name in named - made}
        wanted = {name: given.types[name] for name in carry if name not in made} | wanted
        return replace(given, rows=with_types(given.rows, wanted))

    def built(self, types: Mapping[str, pa.DataType]) -> Standing:
        """Return the index, made when it is first asked for.

        Parameters
        ----------
        types
            Of the columns of rows; they count only where the schema was not said.

        Raises
        ------
        InputError
            If a subscription cannot be asked of such rows.
        """
        known = self.schema
        if known is None:
            known = {name: kind for name, kind in types.items() if name in self._columns}
        key = tuple(sorted((name, str(kind)) for name, kind in known.items()))
        with self._turn:
            found = self._kept.get(key)
            if found is None:
                made = build(self.table, self.space, known, self.text is not None)
                if made.unanswered:
                    first = made.unanswered[0]
                    raise InputError(f"subscription {first.id!r} cannot be asked of these rows: {first.reason}")
                while len(self._kept) >= _MOST_SCHEMAS:
                    del self._kept[next(iter(self._kept))]
                found = self._kept[key] = Standing(made, None)
        return found

    def _pieces(self, given: FrameRows, most: int, clock: Any) -> Iterator[Matches]:
        self._check_speed(given)
        standing = self.built(given.types)
        matcher = StandingMatcher(standing, standing.alive(_instant(clock)))
        return matcher.pieces(given.rows, ANY_EVENT, most)


def subscriptions(
    table_or_records: Any,
    crs: Any = None,
    metric: str | None = None,
    schema: Mapping[str, pa.DataType] | pa.Schema | None = None,
    text: str | None = None,
) -> Watch:
    """Return subscriptions that rows can be held against, in this process and without a store.

    Parameters
    ----------
    table_or_records
        A row each: ``id``; one of ``circle`` (lon, lat, metres), ``box`` (west, south, east, north) and ``polygon``
        (GeoJSON), or none for everywhere; ``edges`` of the polygon, ``where``, ``words``, ``events``, ``expires``,
        ``meta``. Dictionaries, or a table of Arrow, a DataFrame, a dictionary of columns. Polygons of a GeoDataFrame
        are places, and its points with a column ``radius`` circles.
    crs, metric
        Of places and rows, as :func:`dtoss.geometry.space.space_of`; degrees when None.
    schema
        Types of the columns that conditions name: then they are checked at once. None takes those of the rows, and the
        index is built when the first rows come.
    text
        The column of the rows that holds their texts, which ``words`` need.

    Raises
    ------
    InputError
        If a subscription is none; the first are named, with the reasons.
    ValueError
        If the CRS is none, or geometries are in another one.

    Notes
    -----
    What a row means is as in ``dtoss subscribe``. ``around`` an object needs a store, and is refused. Cost O(n).

    Examples
    --------
    >>> watch = subscriptions(
    ...     [
    ...         {"id": "free here", "circle": [8.66, 50.11, 400.0], "where": "occupied = 0"},
    ...         {"id": "anywhere", "where": "occupied = 1"},
    ...     ]
    ... )
    >>> found = watch.match({"lon": [8.66, 8.66], "lat": [50.11, 50.11], "occupied": [0, 1]})
    >>> [(row, watch.ids[number]) for row, number in zip(found.row.tolist(), found.subscription.tolist())]
    [(0, 'free here'), (1, 'anywhere')]
    """
    space = space_of(crs, metric)
    types = None
    if schema is not None:
        types = {one.name: one.type for one in schema} if isinstance(schema, pa.Schema) else dict(schema)
        types = {SPEED_COLUMN: pa.float64(), **types}
    against = Against(space, types, text is not None)
    said = table_or_records
    as_table = None if isinstance(said, list | tuple) else arrow_of(said)
    if as_table is not None:
        table, bad = checked_table(place_geometries(as_table, space), against)
    elif isinstance(said, Mapping | str):
        raise InputError(f"subscriptions are {type(said).__name__}: a list of them, or a table, is wanted")
    else:
        table, bad = check_subscriptions(said, against)
    if bad:
        first = "; ".join(str(one) for one in bad[:_NAMED])
        raise InputError(f"{len(bad)} subscriptions cannot be asked: {first}{'; …' if len(bad) > _NAMED else ''}")
    around = np.flatnonzero(np.asarray(table.column("kind").to_numpy()) == AROUND)
    if len(around):
        raise InputError(
            f"subscription {table.column(ID_OF_ROWS)[int(around[0])].as_py()!r} is around an object, whose place only "
            "a store knows: use dtoss subscribe and dtoss watch"
        )
    watch = Watch(table, space, types, text)
    if types is not None or not watch._columns:
        watch.built({})
    return watch


def columns_in(text: str) -> frozenset[str]:
    """Return the columns that a condition names."""
    return frozenset(_named_in(parse_program(text)))


def _named_in(program: Program) -> set[str]:
    """Return the columns that a program reads."""
    found: set[str] = set()
    for one in program:
        if one.does == "column":
            found.add(one.detail)
        elif isinstance(one.detail, Case):
            parts = [part for branch in one.detail.branches for part in branch] + [one.detail.default or ()]
            for part in parts:
                found |= _named_in(part)
    return found


def _instant(clock: Any) -> int | None:
    if clock is None:
        return None
    found = instant_of(clock)
    if found is None:
        raise ValueError(f"clock is {clock!r}: seconds since 1970, or a datetime, are wanted")
    return found


_NOWHERE = Home("", "unstored")


def events_of(
    standing: Standing,
    settings: Settings,
    before: Rows | None,
    given: FrameRows,
    options: Options,
    clock: int | None,
) -> pa.Table:
    """Return the events of rows as a table. Cost O(n log n + m) for n rows with m matches.

    ``before``: rows before; the last of each object counts. None for none; ``clock``: microseconds; subscriptions that
    expire then or before do not count. None for all.
    """
    carry, crosses = options.carry, standing.crosses
    plan = Plan(
        _NOWHERE, settings, options, 0, None, None, None, Source(), clock, Clock(), (), tuple(given.rows.attributes), 0,
        standing,
    )  # fmt: skip
    tables: list[pa.Table] = []
    out = EventWriter(event_schema(settings, carry, crosses, bool(standing.pairs)), 0, 0, tables.append)
    crowded = 0
    if settings.time is None:
        write_messages(plan, given.rows.take(by_id(given.rows)), out)
    else:
        none = given.rows.take(np.zeros(0, np.int64))
        held = order_rows(none if before is None else before)
        earlier = None
        if standing.pairs or (before is not None and (standing.stays is not None or is_speed_wanted(plan))):
            earlier = with_stays(plan, tracks_of(plan, held, _known_rows(none)))
        last, stays = (held.rows, None) if earlier is None else (earlier.rows, earlier.stays)
        begin = held.begin if earlier is None else earlier.begin
        tracks = with_stays(plan, tracks_of(plan, order_rows(given.rows), _known_rows(last.take(begin[1:] - 1), stays)))
        if standing.pairs and earlier is not None:
            asked = replace(plan, kept=standing.columns_kept)
            moved, moves = moves_of(asked, earlier), moves_of(asked, tracks)
            assert moved is not None
            assert moves is not None
            crowded = write_pairs(asked, moved, moves, out)
        write_events(plan, tracks, out)
    shown = _show(pa.concat_tables([out.schema.empty_table(), *tables]), settings, given, carry)
    return shown.replace_schema_metadata({"crowded": str(crowded)}) if standing.pairs else shown


def _known_rows(last: Rows, stays: pa.Array | None = None) -> KnownRows:
    """Return rows before that are there."""
    assert last.ids is not None
    assert last.t is not None
    none = np.zeros(len(last), np.int64)
    flags = none.astype(np.bool_)
    kept = pa.nulls(len(last), STAY_TYPE) if stays is None else stays
    before = Before(keys_of(last.ids), last.ids, last.t, last.positions, none, flags, last.attributes, kept)
    return KnownRows(before, flags, flags, ())


def _show(events: pa.Table, settings: Settings, given: FrameRows, carry: Sequence[str]) -> pa.Table:
    x, y = position_names(settings.space.geographic)
    events = events.combine_chunks()
    columns = {name: events.column(name).cast(pa.string()) for name in ("kind", "subscription")}
    columns["object"] = events.column("object")
    if given.time is not None:
        columns["t"] = times_as(events.column("t"), given.time)
    columns |= {x: events.column("x"), y: events.column("y"), "distance": events.column("distance")}
    columns["meta"] = events.column("meta").cast(pa.string())
    columns |= {
        name: times_as(events.column(name), given.time)
        for name in CROSS_COLUMNS
        if given.time is not None and name in events.column_names
    }
    near = {OTHER_COLUMN: OTHER_COLUMN, f"near_{x}": OTHER_PLACE[0], f"near_{y}": OTHER_PLACE[1]}
    more = {said: name for said, name in near.items() if name in events.column_names}
    more |= {name: name for name in carried_as(carry).values()}
    return pa.table(columns | {said: events.column(name) for said, name in more.items()})


def check_ids(rows: Rows, whose: str) -> None:
    """Check that rows that follow one another say whose they are."""
    if rows.ids is None:
        raise ValueError(f"{whose} have no column {ID_OF_ROWS!r}: enter and leave are of objects")
    if rows.ids.null_count:
        row = int(rows.ids.is_null().to_numpy(zero_copy_only=False).argmax())
        raise ValueError(f"row {row} of {whose} has no {ID_OF_ROWS}: leave such rows out")
