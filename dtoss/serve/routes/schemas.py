"""What answers look like, for the OpenAPI text: tests hold every answer against it.

A schema with a title is listed by that name, once, and is the type that generators of clients make. Numbers are told
with their bits: what none are told of is 32 bits wide in some languages.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

OBJECT_ID = "ObjectId"
"""The name of the schema whose values depend on the store, and on what was asked for."""
STRING: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number", "format": "double"}
NATURAL: Schema = {"type": "integer", "format": "int64", "minimum": 0}
LONG: Schema = {"type": "integer", "format": "int64"}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {"type": "object", "additionalProperties": True}
"""An object whose fields are the user's, or the store's."""
SNAPSHOT: Schema = {"type": "string", "description": "The snapshot that answered."}
ID: Schema = {"title": OBJECT_ID, "anyOf": [LONG, STRING]}


def array(of: Schema, **more: Any) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of, **more}


def fields(title: str, required: tuple[str, ...] | None = None, /, **properties: Schema) -> Schema:
    """Return the schema of an object by the name of its type.

    ``required``: fields that are always there; all when None.
    """
    return {
        "title": title, "type": "object", "properties": properties,
        "required": [*properties] if required is None else [*required],
    }  # fmt: skip


def told(title: str, /, **properties: Schema) -> Schema:
    """Return the schema of an answer with these fields and the snapshot's name."""
    return fields(title, snapshot=SNAPSHOT, **properties)


def also(schema: Schema, **properties: Schema) -> Schema:
    """Return the schema of an object that may have some more fields."""
    return {**schema, "properties": schema["properties"] | properties}


def choice(title: str, /, **named: str) -> Schema:
    """Return the schema of a text that is one of several, each by the name of its constant.

    Constants of all types share one room in some languages, as in Go: no two of them may have the same name.
    """
    return {"title": title, "type": "string", "enum": [*named], "x-enum-varnames": [*named.values()]}


def maybe(schema: Schema) -> Schema:
    """Return a schema whose value may be null."""
    return {**schema, "type": [schema["type"], "null"]}


def open_ended(schema: Schema) -> Schema:
    """Return the schema of an object that has fields by other names: attributes, measures, what was carried along."""
    return {**schema, "additionalProperties": True}


# -- GeoJSON ----------------------------------------------------------------------------------------------------------

POSITION: Schema = {**array(NUMBER, minItems=2), "title": "Position", "description": "Longitude, latitude; or x, y."}
RING: Schema = {**array(POSITION), "title": "Ring", "description": "The first corner is the last one, too."}


def geojson(kind: str, /, **properties: Schema) -> Schema:
    """Return the schema of a GeoJSON object of a type."""
    return fields(kind, type={"type": "string", "enum": [kind]}, **properties)


def one_of(title: str, *shapes: Schema) -> Schema:
    """Return the schema of what is one of several GeoJSON objects, as ``type`` says."""
    mapping = {one["title"]: f"#/components/schemas/{one['title']}" for one in shapes}
    return {"title": title, "oneOf": [*shapes], "discriminator": {"propertyName": "type", "mapping": mapping}}


_EDGES: Schema = {**STRING, "description": "planar, as GeoJSON means it, or spherical: arcs of great circles."}
POINT = geojson("Point", coordinates=POSITION)
POLYGON_SCHEMA = also(geojson("Polygon", coordinates=array(RING)), edges=_EDGES)
MULTI_POLYGON = also(geojson("MultiPolygon", coordinates=array(array(RING))), edges=_EDGES)
POLYGONAL = one_of("Geometry", POLYGON_SCHEMA, MULTI_POLYGON)
FEATURE = also(geojson("Feature", geometry=POLYGONAL), properties=maybe(ANYTHING), id={})
FEATURES = geojson("FeatureCollection", features=array(FEATURE))
SHAPE = one_of("Shape", POLYGON_SCHEMA, MULTI_POLYGON, FEATURE, FEATURES)

# -- answers that several routes give ---------------------------------------------------------------------------------

HIT = open_ended(
    also(
        fields("Hit", id=ID, distance={**NUMBER, "minimum": 0}), query={**NATURAL, "description": "Of several places."}
    )
) | {"description": "Metres on the sphere, units of the CRS in the plane; and the attributes that were asked for."}
MISSING = array(LONG, description="With partial=ok: partitions that nobody who answers holds.")
HITS = also(told("Hits", hits=array(HIT)), missing=MISSING)
PAGE = {**also(HITS, next={**STRING, "description": "The cursor of the next page; none behind the last."})} | {
    "title": "HitsPage"
}
ONE_COUNT = also(told("Count", count=NATURAL), missing=MISSING)
ALL_COUNTED = also(told("Counts", counts=array(NATURAL)), missing=MISSING)
LOCATED = also(told("Located", id=ID), missing=MISSING)
IN_BOX = {**also(HITS, count=NATURAL), "title": "HitsOrCount", "required": ["snapshot"]}
"""``count`` where it was asked for, else ``hits``: a choice of two would be a type of its own in many languages."""
IN_SHAPES = {**also(HITS, counts=array(NATURAL)), "title": "HitsOrCounts", "required": ["snapshot"]}
BAD_ROW = fields("BadRow", ("row", "reason"), row=NATURAL, id=maybe(STRING), reason=STRING)
PROBLEM = open_ended(
    also(
        fields("Problem", type=STRING, title=STRING, status={"type": "integer", "format": "int32"}, detail=STRING,
               request_id=STRING),
        limit={**STRING, "description": "The parameter or limit that it is about."},
        value={"description": "What was given."},
        bound={"description": "What would have been allowed."},
        bad={**NATURAL, "description": "How many rows are bad."},
        rows=array(BAD_ROW),
        servers=array(LONG, description="Of the plan, that do not answer."),
        partitions=array(LONG, description="That nobody who answers holds."),
        held=array(LONG, description="Partitions that this server holds."),
    )
)  # fmt: skip
"""RFC 9457."""
_PROBLEM = {"application/problem+json": {"schema": PROBLEM}}


def problems(wrong: str = "What is wrong with the request.") -> dict[int | str, dict[str, Any]]:
    """Return what any route may answer instead of what was asked for."""
    return {
        "4XX": {"description": wrong, "content": _PROBLEM},
        "5XX": {"description": "Too busy, not ready, or failed.", "content": _PROBLEM},
    }


def responses(answer: Schema, *, arrow: bool = False, kept: bool = True) -> dict[int | str, dict[str, Any]]:
    """Return what a route may answer."""
    content: dict[str, Any] = {"application/json": {"schema": answer}}
    if arrow:
        content["application/vnd.apache.arrow.stream"] = {"schema": {"type": "string", "format": "binary"}}
    found: dict[int | str, dict[str, Any]] = {200: {"description": "The answer.", "content": content}}
    if kept:
        found[304] = {"description": "The answer that the client has is still right."}
    return found | problems()


def sent_as(kind: str, description: str, *, text: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return what a route may answer whose answer is no JSON."""
    schema = STRING if text else {"type": "string", "format": "binary"}
    return {200: {"description": description, "content": {kind: {"schema": schema}}}} | problems()
