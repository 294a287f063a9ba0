"""What is read of a store: which snapshot, objects and columns, in how many tasks, and as which types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtoss.answer_rows import open_once
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.mapped_index import Verify
from dtoss.names import columns_of_manifest, not_carried, position_names
from dtoss.plain_numbers import is_whole, number_in
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.store import Store

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS = ("path", "snapshot", "columns", "where", "box", "verify", "tasks", "filters")
"""What may be said by ``option``."""
OBJECTS_PER_TASK = 500_000
"""That a task reads, about: starting one costs as much as reading a tenth of that."""
_OF_TABLES = ("location", "owner", "provider", "comment", "external")
"""What Spark says by itself where the source is that of a table; it also repeats options behind ``option.``."""
_FILTERS = {"spark": False, "once": True}
_VERIFY: dict[str, Verify] = {"no": False, "touch": "touch", "all": True}


@dataclass(frozen=True)
class Scan:
    """What is read of a store."""

    store: str  # Path or URI, absolute
    snapshot: str
    columns: tuple[str, ...] | None = None  # In the order in which they are read; None for all
    where: str | None = None  # A condition on the objects
    box: tuple[float, ...] | None = None  # That their positions lie in, as in :meth:`dtoss.Index.box`
    verify: Verify = "touch"  # Which checksums are compared, as in :func:`dtoss.open`
    tasks: int = 1  # How many there are about; more where there are many objects, and never more than partitions
    filters: bool = False  # Whether filters of Spark's are applied here: only right where Spark filters the table once


def scan_of(options: Mapping[str, str]) -> Scan:
    """Return what options ask for; the snapshot is the current one where none is named."""
    given = {name.lower(): value for name, value in options.items()}
    if unknown := sorted(name for name in {*given} - {*OPTIONS, *_OF_TABLES} if not name.startswith("option.")):
        raise InputError(f"option {unknown[0]!r} is not known: {', '.join(OPTIONS)} are")
    if "path" not in given:
        raise InputError(
            "no store is named: spark.read.format('dtoss').load(STORE), or CREATE TEMPORARY VIEW v USING dtoss OPTIONS "
            "(path 'STORE'); of CREATE TABLE Spark loses the options"
        )
    check = _one_of("verify", given.get("verify", "touch"), _VERIFY)
    filters = _one_of("filters", given.get("filters", "spark"), _FILTERS)
    tasks = given.get("tasks", "1").strip()
    if not is_whole(tasks) or int(tasks) < 1:
        raise InputError(f"option tasks is {tasks!r}: a whole number of at least 1 is wanted")
    path = absolute(given["path"])
    manifest = Store(path).manifest(given.get("snapshot"))
    columns = None
    if "columns" in given:
        columns = tuple(name.strip() for name in given["columns"].split(",") if name.strip())
        types_of(manifest, columns)
    box = None if "box" not in given else _box(given["box"], space_of_manifest(manifest))
    scan = Scan(path, manifest["snapshot"], columns, given.get("where"), box, check, int(tasks), filters)
    if scan.where is not None:
        from pipelines.sql.pushed_filters import check_condition

        index = open_once(path, scan.snapshot, check)
        check_condition(scan.where, index.parts[0], index.space)
    return scan


def _one_of(name: str, value: str, known: Mapping[str, Any]) -> Any:
    if value.strip().lower() not in known:
        raise InputError(f"option {name} is {value!r}: {', '.join(known)} are known")
    return known[value.strip().lower()]


def _box(text: str, space: Space) -> tuple[float, ...]:
    from dtoss.queries.covered import as_boxes

    try:
        return tuple(as_boxes([number_in(number) for number in text.replace(",", " ").split()], space)[0].tolist())
    except ValueError as error:
        raise InputError(f"option box is {text!r}: {error}") from None


def absolute(store: str) -> str:
    """Return the path of a store for processes that may run in another folder; a URI stays as it is."""
    path = str(store)
    if path.startswith("file:/"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else str(Path(path).absolute())


def types_of(manifest: Mapping[str, Any], columns: Sequence[str] | None = None) -> dict[str, str]:
    """Return the Spark types of columns by their names: id, the position, and the attributes, or those named."""
    x, y = position_names(space_of_manifest(dict(manifest)).geographic)
    known = {"id": "string" if manifest["id_type"] == "string" else "bigint", x: "double", y: "double"}
    known |= columns_of_manifest(dict(manifest))
    if columns is None:
        return known
    for name in columns:
        if name not in known:
            raise InputError(not_carried(name, known))
        if list(columns).count(name) > 1:
            raise InputError(f"column {name!r} is named twice")
    return {name: known[name] for name in columns}


def ddl_of(types: Mapping[str, str]) -> str:
    """Return columns as Spark's SQL declares them.

    Examples
    --------
    >>> ddl_of({"id": "bigint", "a`b": "string"})
    '`id` bigint, `a``b` string'
    """
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in types.items())


def check_declared(manifest: Mapping[str, Any], schema: StructType) -> None:
    """Check columns that somebody has declared, some of a snapshot's or all, in any order."""
    types = types_of(manifest, schema.fieldNames())
    for field in schema.fields:
        if field.dataType.simpleString() != types[field.name]:
            raise InputError(
                f"column {field.name!r} is declared {field.dataType.simpleString()} and is {types[field.name]} in the "
                "snapshot: leave the schema to the store, or cast afterwards"
            )


@lru_cache(maxsize=2)
def manifest_of(store: str, snapshot: str) -> dict[str, Any]:
    """Return the manifest of a snapshot, kept for the next task of this process."""
    return Store(store).manifest(snapshot)


def groups_of(objects: Mapping[int, int], tasks: int) -> list[tuple[int, ...]]:
    """Return the numbers of partitions in groups for a task each, neighbours together.

    Examples
    --------
    >>> groups_of({0: 300_000, 1: 300_000, 2: 10, 5: 800_000}, 1)
    [(0, 1), (2, 5)]
    >>> groups_of({0: 5, 1: 5, 2: 5}, 2), groups_of({}, 2)
    ([(0, 1), (2,)], [])
    """
    total = sum(objects.values())
    wanted = max(tasks, round(total / OBJECTS_PER_TASK))
    if wanted >= len(objects):
        return [(number,) for number in objects]
    groups: dict[int, list[int]] = {}
    before = 0
    for number, count in objects.items():
        # by where a partition begins among all objects
        groups.setdefault(before * wanted // max(total, 1), []).append(number)
        before += count
    return [tuple(group) for group in groups.values()]
