"""The schema of a manifest, and what it says of columns of the input and of how partitions were chosen.

Only the standard library: commands that need no kernels read manifests too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dtoss.errors import InputError, StoreError
from dtoss.html_table import facts_html, how_many
from dtoss.names import columns_of_manifest
from dtoss.option import Option, check_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


HASHED = (
    "format", "crs", "metric", "to_lonlat", "bounds", "id_type", "columns", "pivots", "weights", "pivots_hash", "reach",
    "partitions", "borders", "objects", "sites", "replicas", "bytes", "area", "time",
)  # fmt: skip
"""The fields that an index is opened from, which the manifest's own hash is made of; format 2 has no ``time``."""
OLDER = 2
"""The format before times, tombstones and cycles."""
MOST_OBJECTS = 2**31 - 1
"""Objects of a partition at the most."""


class Manifest(dict[str, Any]):
    """The manifest of a snapshot: a dictionary of the fields of docs/format.md; whoever reads one needs no more."""

    def _repr_html_(self) -> str:
        """Return its main facts as a table; thousands of partitions and pivots are only counted."""
        counts = {name: count for name, count in self["counts"].items() if isinstance(count, int)}
        facts = [
            ("created", self["created"]),
            ("made after", self.get("parent") or "nothing"),
            ("objects", f"{self['objects']:,} at {how_many(self['sites'], 'place')}"),
            ("partitions", f"{len(self['partitions']):,}, with {self['replicas']:,} copies of objects near borders"),
            ("files", f"{self['bytes'] / 1e6:,.1f} MB"),
            ("crs", f"{self['crs']}, compared {'on the sphere' if self['metric'] == 'sphere' else 'in the plane'}"),
            ("ids", self["id_type"]),
            ("columns", [f"{name} ({kind})" for name, kind in columns_of_manifest(self).items()] or "none"),
            ("counted", [f"{name} {count:,}" for name, count in counts.items()] or "nothing"),
            ("seconds", f"{sum(self['timings'].values()):.1f}"),
        ]
        return facts_html(f"snapshot {self['snapshot']}", facts)


def hash_of(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of the fields that an index is opened from, as JSON with sorted keys."""
    names = HASHED if manifest["format"] != OLDER else [name for name in HASHED if name != "time"]
    text = json.dumps({name: manifest[name] for name in names}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_manifest(manifest: dict[str, Any], snapshot: str, path: str) -> None:
    """Check every field that is read of a manifest, and its hash where it has one."""

    def field(within: dict[str, Any], name: str, test: Callable[[Any], bool], wanted: str, where: str = "") -> Any:
        if name not in within:
            raise StoreError(f"{path} is damaged: {where}{name} is missing; roll back or rebuild")
        value = within[name]
        if not test(value):
            raise StoreError(
                f"{path} is damaged: {where}{name} is {_short(value)}, {wanted} is wanted; roll back or rebuild"
            )
        return value

    field(manifest, "snapshot", lambda v: v == snapshot, repr(snapshot))
    for name in ("created", "crs"):
        field(manifest, name, _text, "a text")
    metric = field(manifest, "metric", lambda v: v in ("sphere", "plane"), "sphere or plane")
    plane = metric == "plane"
    field(manifest, "to_lonlat", lambda v: isinstance(v, bool) and not (v and plane), "true on a sphere, or false,")
    bounds = "xmin, ymin, xmax, ymax" if plane else "null"
    field(manifest, "bounds", _box if plane else _nothing, bounds)
    field(manifest, "id_type", lambda v: v in ("int64", "string"), "int64 or string")
    field(manifest, "columns", _named(_text), "the types of columns")
    if "renamed" in manifest:
        field(manifest, "renamed", _named(_text), "the names of attributes")
    if manifest["format"] != OLDER:
        _check_state(field, manifest)
    field(manifest, "parameters", lambda v: isinstance(v, dict), "an object")
    field(manifest, "timings", _named(_not_negative), "seconds of stages")
    counts = field(manifest, "counts", lambda v: isinstance(v, dict), "an object")
    for name in ("read", "kept", "duplicates"):
        field(counts, name, _count, "a whole number", "counts.")
    field(counts, "quarantined", _named(_count), "numbers of rows", "counts.")
    entries = field(manifest, "partitions", lambda v: _entries(v) and len(v) > 0, "a list of entries")
    many = len(entries)
    dimension = 2 if plane else 3
    field(manifest, "pivots", _rows(many, dimension), f"{many} vectors of {dimension} numbers")
    field(manifest, "weights", lambda v: _numbers(v, many), f"{many} numbers")
    field(manifest, "pivots_hash", _hex(16), "16 hexadecimal digits")
    field(manifest, "reach", _reaches(many), f"{many} numbers that are not negative, or null")
    for number, entry in enumerate(entries):
        where = f"partitions[{number}]."
        field(entry, "number", _exactly(number), str(number), where)
        objects = field(entry, "objects", _count, f"a whole number up to {MOST_OBJECTS}", where)
        sites = field(entry, "sites", _up_to(objects), f"a whole number up to objects, {objects},", where)
        field(entry, "uncertified", _up_to(sites), f"a whole number up to sites, {sites},", where)
        field(entry, "replicas", _count, f"a whole number up to {MOST_OBJECTS}", where)
        field(entry, "furthest", _not_negative if sites else _below_all, "a distance, or -1", where)
        _file(field, entry, where, r"partitions/[^/]+\.arrow")
    borders = field(manifest, "borders", lambda v: isinstance(v, dict), "an entry")
    points = field(borders, "points", _count, "a whole number", "borders.")
    field(borders, "fixed", _up_to(points), f"a whole number up to points, {points},", "borders.")
    _file(field, borders, "borders.", r"[^/]+\.arrow")
    for name in ("objects", "sites", "replicas", "bytes"):
        total = sum(entry[name] for entry in entries) + (borders["bytes"] if name == "bytes" else 0)
        field(manifest, name, _exactly(total), f"{total}, as its entries say,")
    field(manifest, "area", _number, "a number")
    if "parent" in manifest:
        field(manifest, "parent", lambda v: v is None or _text(v), "the name of a snapshot, or null,")
    if "sha256" in manifest:
        made = hash_of(manifest)
        field(manifest, "sha256", lambda v: v == made, f"{made} of its other fields")


def _check_state(field: Callable[..., Any], manifest: dict[str, Any]) -> None:
    """Check what later cycles need to know of a snapshot."""
    time = field(manifest, "time", _object_or_null, "what is known of times, or null,")
    if time is not None:
        field(time, "column", _text, "a text", "time.")
        kind = field(time, "type", is_time_type, "a type of times", "time.")
        number = kind not in MOMENTS
        units = ("s", "ms", "us") if number else (None,)
        wanted = "s, ms or us" if number else "null"
        field(time, "unit", lambda v: v in units, wanted, "time.")
    tombstones = field(manifest, "tombstones", _object_or_null, "an entry, or null,")
    if tombstones is not None:
        field(tombstones, "rows", _count, "a whole number", "tombstones.")
        if "since" in tombstones:
            field(tombstones, "since", lambda v: v is None or _number(v), "a number, or null,", "tombstones.")
        _file(field, tombstones, "tombstones.", r"tombstones-[0-9a-f]{16}\.arrow", area=False)
    ledger = field(manifest, "ledger", lambda v: isinstance(v, dict), "an object")
    field(ledger, "files", _named(_whole), "the sizes of files", "ledger.")
    field(ledger, "batches", _named(_whole), "the numbers of batches", "ledger.")
    for name, is_one, wanted in (
        ("written", _whole, "times of files"),
        ("hashes", _text, "hashes of files"),
        ("refused", _text, "reasons of files"),
    ):
        if name in ledger:
            field(ledger, name, _named(is_one), wanted, "ledger.")
    for at, run in enumerate(field(ledger, "runs", _entries, "a list of entries") if "runs" in ledger else ()):
        where = f"ledger.runs[{at}]."
        field(run, "rows", _whole, "a whole number", where)
        _file(field, run, where, r"ledger-[0-9a-f]{16}\.json\.zst", area=False)
    clock = field(manifest, "clock", _object_or_null, "an object, or null,")
    if clock is not None:
        field(clock, "kind", lambda v: v in ("wall", "given", "data"), "wall, given or data", "clock.")
    field(manifest, "policy", lambda v: isinstance(v, dict), "an object")
    field(manifest, "cycle", _object_or_null, "an object, or null,")
    field(manifest, "source", _object_or_null, "an object, or null,")


MOMENTS = ("date", "timestamp", "timestamp_ntz")
"""Types of times, as Spark calls them, that need no unit."""
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
"""Types of times that are numbers, beside decimals."""


def is_time_type(value: Any) -> bool:
    """Return whether times may be of a type, by its name in a manifest."""
    named = _text(value) and (value in MOMENTS or value in NUMBERS)
    return named or (_text(value) and re.fullmatch(r"decimal\(\d+,\d+\)", value) is not None)


def _file(field: Callable[..., Any], entry: dict[str, Any], where: str, name: str, area: bool = True) -> None:
    field(entry, "file", lambda v: _text(v) and re.fullmatch(name, v) is not None, "the name of a file", where)
    field(entry, "bytes", lambda v: isinstance(v, int) and not isinstance(v, bool) and v > 0, "a size", where)
    if "sha256" in entry or "xxh64" not in entry:
        field(entry, "sha256", _hex(64), "64 hexadecimal digits", where)
    if area:
        field(entry, "area", _number, "a number", where)
    if "xxh64" in entry:
        field(entry, "xxh64", _hex(16), "16 hexadecimal digits", where)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nothing(value: Any) -> bool:
    return value is None


def _object_or_null(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _below_all(value: Any) -> bool:
    return _number(value) and value == -1


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _not_negative(value: Any) -> bool:
    return _number(value) and value >= 0


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_OBJECTS


def _exactly(wanted: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value == wanted


def _up_to(most: int) -> Callable[[Any], bool]:
    return lambda value: _count(value) and value <= most


def _numbers(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_number, value))


def _rows(count: int, width: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) == count and all(_numbers(row, width) for row in value)


def _reaches(count: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, list) and len(v) == count and all(one is None or _not_negative(one) for one in v)


def _box(value: Any) -> bool:
    return _numbers(value, 4) and value[0] < value[2] and value[1] < value[3]


def _entries(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _named(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(test, value.values()))


def _hex(digits: int) -> Callable[[Any], bool]:
    return lambda value: _text(value) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


@dataclass(frozen=True)
class Wishes:
    """What a user may say of partitions when a store is made; later cycles keep to it."""

    title: ClassVar[str] = "What is built; of updates, a store's first snapshot"
    partitions: Annotated[int | None, Option("How many partitions.")] = None
    objects_per_partition: Annotated[int | None, Option("Objects a partition; 250000 if neither is given.")] = None
    pivots: str = "balanced"  # Or "spread", or "keep" those that stand
    reach: Annotated[
        float | None,
        Option("How far past its borders a partition also knows objects, in chord or CRS units."),
    ] = None
    seed: Annotated[int, Option("Of the sample and the random choices.")] = 0
    bounds: Annotated[
        Any,
        Option(
            "Plane: rectangle that cells are clipped to.",
            "XMIN YMIN XMAX YMAX",
            written=tuple[float, float, float, float],
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.partitions is not None and self.objects_per_partition is not None:
            raise ValueError("partitions and objects_per_partition are both given: one of them is wanted")
        check_count("partitions", self.partitions, 1)
        check_count("objects_per_partition", self.objects_per_partition, 1)
        if self.pivots not in ("balanced", "spread", "keep"):
            raise ValueError(f"pivots is {self.pivots!r}: balanced, spread or keep is wanted")
        if self.reach is not None and not self.reach >= 0.0:
            raise ValueError(f"reach is {self.reach!r}: a number that is not negative is wanted")

    @classmethod
    def of(cls, said: Any) -> Wishes:
        """Return the wishes among a manifest's parameters, or among arguments."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__ if said.get(name) is not None})

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's parameters hold them."""
        import numpy as np

        bounds = None if self.bounds is None else np.asarray(self.bounds, dtype=np.float64).tolist()
        return asdict(self) | {"bounds": bounds}


@dataclass(frozen=True)
class Shape:
    """How well partitions share objects: the largest in means, and the shares of open cells and of replicas."""

    objects: int
    largest: float
    open: float
    copied: float

    @classmethod
    def of(cls, entries: list[dict[str, Any]]) -> Shape:
        """Return the shape of partitions, from their entries in a manifest."""
        objects = sum(entry["objects"] for entry in entries)
        sites = sum(entry["sites"] for entry in entries)
        if objects == 0:
            return cls(0, 1.0, 0.0, 0.0)
        return cls(
            objects,
            max(entry["objects"] for entry in entries) * len(entries) / objects,
            sum(entry["uncertified"] for entry in entries) / max(sites, 1),
            sum(entry["replicas"] for entry in entries) / objects,
        )

    def facts(self, bounds: NDArray[np.float64] | None) -> dict[str, Any]:
        """Return what the manifest keeps of it, as that of the snapshot for which pivots and bounds were chosen."""
        return {
            "objects": self.objects,
            "largest": round(self.largest, 6),
            "open": round(self.open, 6),
            "copied": round(self.copied, 6),
            "bounds": None if bounds is None else bounds.tolist(),
        }


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of the input mean what, and how text is to be read.

    Each name is that of a column, or else a path to a field of structs, such as ``vehicle.id``. Where rows follow
    others, such as those of a store, what is not said is as it was there.
    """

    # None where rows are no objects, such as accesses: all ids are 0 then
    id: Annotated[
        str | None, Option("Column with the object's id; if not given id, or as a store's rows had it.", "COLUMN")
    ] = "id"
    # x, y: None takes the two columns that :func:`dtoss.geometry.space.axes_of` finds, or points of a GeoParquet file
    x: Annotated[
        str | None,
        Option("Column with lon or x; if not given lon, lng, longitude or x, or as a store's rows had it.", "COLUMN"),
    ] = None
    y: Annotated[
        str | None,
        Option("Column with lat or y; if not given lat, latitude or y, or as a store's rows had it.", "COLUMN"),
    ] = None
    time: Annotated[
        str | None,
        Option("Column with the time: the latest row of each id counts. t if there is one.", "COLUMN"),
    ] = None
    id_type: Annotated[
        str | None, Option("What ids are; what most of them look like if not given.", written=Literal["int", "text"])
    ] = None
    # Binary points, too, as a GeoParquet file has them
    geometry: Annotated[str | None, Option("Column of points, WKB or WKT, instead of --x and --y.", "COLUMN")] = None
    time_format: Annotated[
        str | None,
        Option("A pattern such as M/d/yyyy H:mm:ss, or epoch_s, epoch_ms, epoch_us, excel; else ISO 8601."),
    ] = None
    # Numbers that count since 1970 have no zone
    zone: Annotated[str | None, Option("Of times that name none: Asia/Shanghai; UTC if not given.", "ZONE")] = None
    delimiter: Annotated[
        str, Option("Of CSV files: a character, tab, semicolon, blank or pipe; a comma if not given.")
    ] = ","
    encoding: Annotated[str | None, Option("Of CSV files, such as latin-1; UTF-8 or the file's mark if not given.")] = (
        None
    )
    multiline: Annotated[bool, Option("Values in quotes may hold line ends.")] = False
    decimal: Annotated[str, Option("Mark of numbers in text: a comma, or . if not given.")] = "."
    header: Annotated[bool, Option("CSV without names: columns are c1, c2, ...", name="--no-header")] = True
    quote: Annotated[str, Option('Of CSV files: a character, or none where quotes are text; " if not given.')] = '"'
    escape: Annotated[str | None, Option("Of CSV files: what makes a quote or a delimiter a plain character.")] = None
    null: Annotated[str | None, Option("Of CSV files: what stands for no value, such as NA.")] = None
    # "all" are those that do not begin with an underscore
    attributes: Annotated[
        Sequence[str] | str,
        Option(
            "Attributes to carry: names separated by commas, none, or all if not given.",
            name="--columns",
            parse=lambda text: text or "all",
        ),
    ] = "all"
    # Booleans, 1 and 0, or such words; a row that deletes needs no position
    deleted: Annotated[str | None, Option("Column that says whether a row deletes its object.", "COLUMN")] = None
    crs: str | None = None  # Of the positions, as the user says it; as the file states it, else degrees, when None

    def coordinates(self, found: Sequence[str]) -> tuple[str, str]:
        """Return the names of the two coordinates among those found; lon and lat where none are called so."""
        if self.x is not None and self.y is not None:
            return self.x, self.y
        from dtoss.geometry.space import AXES, axes_of

        try:
            names = axes_of(found, half=True) or AXES[0]
        except ValueError as error:
            raise InputError(str(error).replace("x= and y=", "--x NAME --y NAME")) from None
        return self.x or names[0], self.y or names[1]

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Columns:
        """Return them from what a manifest holds; names that are not known are left out."""
        stored = {"attributes" if name == "columns" else name: value for name, value in facts.items()}
        return cls(**{one.name: stored[one.name] for one in fields(cls) if one.name in stored})

    def facts(self) -> dict[str, Any]:
        """Return them as a manifest's ``source`` holds them, from which a cycle takes them again."""
        asked = asdict(self)
        wanted = asked.pop("attributes")
        return asked | {"columns": wanted if isinstance(wanted, str) else list(wanted)}
