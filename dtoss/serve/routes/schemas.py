"""What answers look like, for the OpenAPI text: tests hold every answer against it."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

SNAPSHOT: Schema = {"type": "string", "description": "The snapshot that answered."}
ID: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
HIT: Schema = {
    "type": "object",
    "properties": {"query": {"type": "integer"}, "id": ID, "distance": {"type": "number", "minimum": 0}},
    "required": ["id", "distance"],
    "description": "Metres on the sphere, units of the CRS in the plane; and the attributes that were asked for.",
}
PROBLEM: Schema = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "limit": {"type": "string"},
        "value": {},
        "bound": {},
        "request_id": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "request_id"],
}


def told(**properties: Schema) -> Schema:
    """Return the schema of an object with these properties and the snapshot's name."""
    return {
        "type": "object",
        "properties": {"snapshot": SNAPSHOT, **properties},
        "required": ["snapshot", *properties],
    }


def array(of: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of}


HITS = told(hits=array(HIT))
PAGE = {**HITS, "properties": {**HITS["properties"], "next": {"type": "string", "description": "Of the next page."}}}
COUNT = told(count={"type": "integer", "minimum": 0})
LOCATED = told(id=ID)
POLYGON_SCHEMA: Schema = {
    "type": "object",
    "properties": {"type": {"const": "Polygon"}, "coordinates": {"type": "array"}},
    "required": ["type", "coordinates"],
}


def responses(answer: Schema, *, arrow: bool = False, kept: bool = True) -> dict[int | str, dict[str, Any]]:
    """Return what a route may answer.

    Parameters
    ----------
    answer
        The schema of its JSON.
    arrow
        Whether it answers with Arrow streams too.
    kept
        Whether clients may keep an answer and ask whether it is still right.
    """
    content: dict[str, Any] = {"application/json": {"schema": answer}}
    if arrow:
        content["application/vnd.apache.arrow.stream"] = {"schema": {"type": "string", "format": "binary"}}
    problem = {"application/problem+json": {"schema": PROBLEM}}
    found: dict[int | str, dict[str, Any]] = {200: {"description": "The answer.", "content": content}}
    if kept:
        found[304] = {"description": "The answer that the client has is still right."}
    found["4XX"] = {"description": "What is wrong with the request.", "content": problem}
    found["503"] = {"description": "Too busy, or not ready.", "content": problem}
    return found
