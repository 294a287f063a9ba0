"""Positions read from files by tasks of this process, as :mod:`pipelines.rows.read_files` has them of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pyarrow as pa

from dtoss.delimited.record_batches import CORRUPT, FLAW
from dtoss.errors import InputError
from dtoss.snapshots.column_types import stored_column, stored_type
from pipelines.engines.local_rows import run_all
from pipelines.engines.rows import Batches
from pipelines.rows.delimited_frame import text_tasks
from pipelines.rows.file_splits import Piece, size_of
from pipelines.rows.geoparquet_in import crs_taken, point_of
from pipelines.rows.input_columns import Columns
from pipelines.rows.inputs import Inputs
from pipelines.rows.json_rows import json_batches, json_schema
from pipelines.rows.local_frame import LocalFrame, Source, TableSource
from pipelines.rows.position_frame import Positions
from pipelines.rows.row_plan import RowPlan, kinds_asked, plan_rows, taken
from pipelines.rows.through_arrow import folder_columns, table_tasks
from pipelines.text.text_kinds import Counts, add_counts, kinds_of_texts

KEPT_BYTES = 1 << 30
"""Of files of text up to which their rows are kept between two looks at them; larger ones are read twice."""


@dataclass(frozen=True)
class FileSource:
    """Rows of files, in groups of pieces."""

    groups: Sequence[Sequence[Piece]]
    read: Callable[..., Batches]  # Takes a piece and the names of columns

    def tasks(self, columns: Sequence[str]) -> Sequence[Callable[[], Batches]]:
        """As :meth:`pipelines.rows.local_frame.Source.tasks`."""
        return [partial(self._group, group, columns) for group in self.groups]

    def _group(self, group: Sequence[Piece], columns: Sequence[str]) -> Batches:
        for piece in group:
            for batch in self.read(piece, columns):
                yield batch.select(list(columns))


@dataclass(frozen=True)
class KeptSource:
    """Rows of which some columns are kept in memory once they were read."""

    source: Source
    names: Sequence[str]

    @cached_property
    def _batches(self) -> list[list[pa.RecordBatch]]:
        return run_all(self.source.tasks(self.names), list)

    def tasks(self, columns: Sequence[str]) -> Sequence[Callable[[], Batches]]:
        """As :meth:`pipelines.rows.local_frame.Source.tasks`."""
        if not set(columns) <= set(self.names):
            return self.source.tasks(columns)
        return [partial(_selected, batches, columns) for batches in self._batches]


def _selected(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return (batch.select(list(columns)) for batch in batches)


def read_locally(
    inputs: Inputs,
    columns: Columns,
    wanted: Mapping[str, str] | None = None,
    *,
    timeless: bool = False,
    kept_bytes: int = KEPT_BYTES,
) -> Positions:
    """Return the positions in files, to be screened in this process.

    ``timeless``: no column is a time unless it is named; ``kept_bytes``: of files of text whose rows are kept between
    two looks at them; larger ones are read twice.
    """
    if not inputs.places:
        raise InputError(f"{', '.join(inputs.paths)} cannot be reached by this process: --engine spark reads it")
    if inputs.schema is not None:
        groups, read, schema = table_tasks(None, inputs)
        return positions_of(FileSource(groups, read), _with_metadata(schema, inputs.schema), columns, timeless=timeless)
    if inputs.kind == "json":
        lines = json_source(inputs, multiline=columns.multiline)
        return _positions(lines, plan_rows(lines.schema, columns, wanted=wanted, timeless=timeless), columns.crs)
    groups, read, names = text_tasks(None, inputs, columns)
    schema = pa.schema([(name, pa.string()) for name in [*names, CORRUPT, FLAW]])
    source: Source = FileSource(groups, read)
    plan = plan_rows(schema, columns, text=True, wanted=wanted, timeless=timeless)
    if sum(map(size_of, inputs.places)) <= kept_bytes:
        source = KeptSource(source, plan.needed)
    kinds = _kinds(source, plan)
    plan = plan_rows(schema, columns, text=True, kinds=kinds, wanted=wanted, timeless=timeless)
    return _positions(source, plan, columns.crs)


@dataclass(frozen=True)
class JsonSource:
    """Rows of JSON lines; each file is a task."""

    inputs: Inputs
    schema: pa.Schema  # Of all columns
    inside: pa.Schema  # Of those that stand in the lines
    folders: Mapping[str, pa.Array]  # Of those that names of folders say, a value for each file
    multiline: bool

    def tasks(self, columns: Sequence[str]) -> Sequence[Callable[[], Batches]]:
        """As :meth:`pipelines.rows.local_frame.Source.tasks`."""
        return [partial(self._file, number, columns) for number in range(len(self.inputs.places))]

    def _file(self, number: int, columns: Sequence[str]) -> Batches:
        for batch in json_batches([self.inputs.places[number]], self.inside, multiline=self.multiline):
            for name, values in self.folders.items():
                batch = batch.append_column(name, pa.repeat(values[number], len(batch)))
            yield batch.select(list(columns))


def json_source(inputs: Inputs, *, multiline: bool) -> JsonSource:
    """Return the rows of JSON lines, in the types that all lines say."""
    inside = json_schema(inputs.places, multiline=multiline)
    folders = folder_columns(inputs)
    schema = pa.schema([*inside, *((name, values.type) for name, values in folders.items())])
    return JsonSource(inputs, schema, inside, folders, multiline)


def names_in(inputs: Inputs, columns: Columns) -> list[str]:
    """Return the names of the columns of files that this process reads."""
    frame = read_locally(inputs, columns).frame
    assert isinstance(frame, LocalFrame)
    assert frame.plan is not None
    return [name for name in frame.plan.as_read if name != CORRUPT]


def positions_of(source: Source, schema: pa.Schema, columns: Columns, *, timeless: bool = False) -> Positions:
    """Return the positions in rows of such columns, of Parquet or of a table, points by their metadata too."""
    point = point_of(schema, columns)
    crs = crs_taken(point, columns.crs)
    named = columns
    if point is not None and columns.attributes == "all":
        left_out = {point.name, columns.id, *point.covering}
        named = replace(columns, attributes=[n for n in schema.names if n not in left_out and not n.startswith("_")])
    plan = plan_rows(schema, named, point=None if point is None else point.name, timeless=timeless)
    plan = replace(plan, asked=replace(columns, time=plan.columns.time))
    found = _positions(source, plan, crs)
    said = dict(found.taken)
    if point is not None:
        said["position"] = f"{point.name}, points"
    if crs is not None and columns.crs is None:
        said["crs"] = f"{crs}, as the file states"
    return replace(found, taken=said)


def positions_of_table(table: pa.Table, columns: Columns) -> Positions:
    """Return the positions in a table, in the types that snapshots have."""
    schema = pa.schema([one.with_type(stored_type(one.type)) for one in table.schema], metadata=table.schema.metadata)
    batches = [pa.record_batch([*map(stored_column, one.columns)], schema=schema) for one in table.to_batches()]
    return positions_of(TableSource([pa.Table.from_batches(batches, schema)]), schema, columns)


def _positions(source: Source, plan: RowPlan, crs: str | None) -> Positions:
    return Positions(
        frame=LocalFrame(source, plan),
        attributes=plan.attributes,
        timed=plan.columns.time is not None,
        string_ids=not plan.whole,
        crs=crs,
        taken=taken(plan),
        source=replace(plan.asked, time=plan.columns.time),
    )


def _with_metadata(schema: pa.Schema, footers: pa.Schema | None) -> pa.Schema:
    """Return columns with what the footers of the files say of them."""
    if footers is None:
        return schema
    fields = [
        field.with_metadata(footers.field(field.name).metadata) if field.name in footers.names else field
        for field in schema
    ]
    return pa.schema(fields, metadata=footers.metadata)


def _kinds(source: Source, plan: RowPlan) -> dict[str, str]:
    """Return the kinds of columns of text, from all their values."""
    names, tolerant = kinds_asked(plan)
    if not names:
        return {}
    decimal, wanted = plan.columns.decimal, plan.wanted

    def look(batches: Batches) -> dict[str, Counts]:
        return kinds_of_texts(batches, names, tolerant, decimal, wanted)

    seen = add_counts(run_all(source.tasks(plan.needed), look))
    return {name: seen[name].kind(name in tolerant, wanted.get(name)) for name in names}
