"""What ``GET /openapi.json`` says: parameters as the framework reads them, answers as handlers do, for generators.

A type is listed once, by its title; a route has one name, by which clients call it; each number says its bits; and no
parameter may be null, which no URL can say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from litestar import Litestar

from dtoss.serve.auth.route_table import CALLS, OPEN
from dtoss.serve.requests.front import MIN_SEQ, PARTIAL
from dtoss.serve.routes.schemas import LONG, OBJECT_ID, STRING, Schema, choice

GROUPS = {
    "Questions": "Who is near, who is inside, what a place belongs to.",
    "Positions": "Rows that are told now.",
    "Standing questions": "Subscriptions and their events.",
    "Windows": "What happened in each place lately.",
    "Features": "OGC API Features: collections for QGIS and GDAL.",
    "The map": "What the pages of the server ask for.",
    "Care": "What operators and other servers ask for.",
}
"""What pages list routes by, and generators make classes of."""
_PATHS = {
    "Positions": {"positions"},
    "Standing questions": {"events", "subscriptions"},
    "Windows": {"windows"},
    "Features": {"ogc"},
    "Care": {"snapshot", "healthz", "readyz", "metrics", "openapi.json", "partial", "forward"},
    "The map": {"", "basemap", "docs", "live", "map", "report", "static", "tiles"},
}
"""Routes by the first part of their paths; all others are questions."""
_NAMES = {(call.method, call.path): call.name for call in CALLS}
TOKEN = "token"
_LARGEST_INT32 = (1 << 31) - 1
_DIGITS = "Whole numbers of 64 bits, or texts, as the store has them. "
_PARTIAL: Schema = {
    "name": PARTIAL, "in": "query", "required": False, "schema": {"type": "string", "enum": ["ok"]},
    "description": "What the others have, where a partition is nowhere: `missing` names those that the answer lacks.",
}  # fmt: skip

_MIN_SEQ: Schema = {
    "name": MIN_SEQ, "in": "query", "required": False, "schema": {"type": "integer", "format": "int64", "minimum": 0},
    "description": "Wait until the answer holds all rows up to this sequence number; 503 says which it would hold.",
}  # fmt: skip


def openapi_text(
    app: Litestar, *, ids: str | None, text_ids: bool, tokens: bool, several: bool, fresh: bool
) -> dict[str, Any]:
    """Return the OpenAPI text; ``ids`` is the form, string or number, in which alone a client asks for ids."""
    text: dict[str, Any] = app.openapi_schema.to_schema()
    found: dict[str, Schema] = {}
    open_to_all = {(call.method, call.path) for call in CALLS if call.who == OPEN}
    for method, path, handler in _handlers(app):
        operation = text["paths"].get(path, {}).get(method.lower())
        if operation is None:
            continue
        said = _operation(operation, method, path, handler.opt)
        parameters = [parameter_of(one) for one in operation.get("parameters", [])]
        if several and said["tags"] == ["Questions"]:
            parameters.append(_PARTIAL)
        if fresh and said["tags"] == ["Questions"]:
            parameters.append(_MIN_SEQ)
        said["parameters"] = parameters if path in ("/openapi.json", "/ogc/api") else _with_ids_as(parameters, ids)
        if (method, path) in open_to_all:
            said["security"] = []
        text["paths"][path][method.lower()] = name_types(said, found)
    found[OBJECT_ID] = _object_id(ids, text_ids)
    text["tags"] = [{"name": name, "description": what} for name, what in GROUPS.items()]
    text["security"] = [{TOKEN: []}] if tokens else [{}, {TOKEN: []}]
    scheme = {"type": "http", "scheme": "bearer", "description": "A line of --token-file, where the server has one."}
    text["components"] = {"schemas": dict(sorted(found.items())), "securitySchemes": {TOKEN: scheme}}
    return text


def _handlers(app: Litestar) -> Iterator[tuple[str, str, Any]]:
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            for method in sorted(getattr(handler, "http_methods", ())):
                yield str(method), _plain(route.path), handler


def _operation(operation: dict[str, Any], method: str, path: str, opt: dict[str, Any]) -> dict[str, Any]:
    said_first, _, said_more = operation.get("description", "").partition("\n\n")
    said: dict[str, Any] = {
        "operationId": _NAMES[method, path], "tags": [group_of(path)], "summary": summary_of(said_first),
    }  # fmt: skip
    if said_more:
        said["description"] = said_more
    said["responses"] = {str(status): answer for status, answer in opt.get("responses", {}).items()}
    return said | ({"requestBody": opt["body"]} if "body" in opt else {})


def parameter_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter of the framework as generators read it: of one type, which is never null."""
    schema = dict(given["schema"])
    schema.pop("description", None)
    kinds = [one for one in schema.pop("oneOf", [schema]) if one.get("type") != "null"]
    schema = kinds[0] | {name: value for name, value in schema.items() if value is not None}
    if isinstance(schema["type"], list):
        (schema["type"],) = (kind for kind in schema["type"] if kind != "null")
    if "enum" in schema:
        schema["enum"] = [value for value in schema["enum"] if value is not None]
    if schema["type"] == "array" and "title" in schema:
        schema["items"] = schema["items"] | {"title": schema.pop("title")}
    if schema["type"] == "integer":
        schema = _whole(schema)
    elif schema["type"] == "number":
        schema["format"] = "double"
    if given["in"] == "path" or schema.get("default") == "":
        schema.pop("default", None)
    said = {name: given[name] for name in ("name", "in", "description")}
    return said | {"required": given["in"] == "path" or given["required"], "schema": schema}


def _whole(schema: Schema) -> Schema:
    """Return the schema of a whole number with whole bounds, and its bits."""
    if "exclusiveMaximum" in schema:
        schema["maximum"] = schema.pop("exclusiveMaximum") - 1
    bounds = {name: int(schema[name]) for name in ("minimum", "maximum") if name in schema}
    wide = bounds.get("maximum", _LARGEST_INT32 + 1) > _LARGEST_INT32
    return schema | bounds | {"format": "int64" if wide else "int32"}


def name_types(value: object, found: dict[str, Schema]) -> object:
    """Return a part of the text with references to types in their places; they are put into ``found`` by their titles.

    Examples
    --------
    >>> found = {}
    >>> name_types({"schema": {"title": "Count", "type": "integer"}}, found), found
    ({'schema': {'$ref': '#/components/schemas/Count'}}, {'Count': {'type': 'integer'}})
    """
    if isinstance(value, list):
        return [name_types(one, found) for one in value]
    if not isinstance(value, dict):
        return value
    whole = {name: one if name == "example" else name_types(one, found) for name, one in value.items()}
    title = whole.get("title")
    if not isinstance(title, str):  # a field may be called so, too
        return whole
    del whole["title"]
    beside = {"default": whole.pop("default")} if "default" in whole else {}
    if found.setdefault(title, whole) != whole:
        raise ValueError(f"two types are called {title}: {found[title]} and {whole}")
    return {"$ref": f"#/components/schemas/{title}", **beside}


def _with_ids_as(parameters: list[dict[str, Any]], ids: str | None) -> list[dict[str, Any]]:
    """Return parameters with the one that says how ids come as a client needs it that asks for one form alone."""
    if ids is None:
        return parameters
    others = [one for one in parameters if one["name"] != "ids"]
    if ids == "number" or len(others) == len(parameters):
        return others
    # it has to be sent: what a client makes of ids would be wrong without
    (given,) = (one for one in parameters if one["name"] == "ids")
    return [*others, given | {"required": True, "schema": choice("IdsAsText", string="TEXT")}]


def _object_id(ids: str | None, text_ids: bool) -> Schema:
    if text_ids or ids == "string":
        return STRING | {
            "description": "The digits of a number of 64 bits." if not text_ids else "As the store has it."
        }
    if ids == "number":
        return LONG | {"description": "Of 64 bits: float64 has digits for up to 2^53."}
    return {
        "anyOf": [LONG, STRING],
        "description": f"{_DIGITS}Numbers above 2^53 lose digits where numbers are float64, as in JavaScript: ask with "
        "ids=string there. `/openapi.json?ids=string` describes that alone, `?ids=number` numbers alone.",
    }  # fmt: skip


def summary_of(sentence: str) -> str:
    """Return what a route answers with, by what its function says that it does.

    Examples
    --------
    >>> summary_of("Return how many objects lie within a radius.")
    'How many objects lie within a radius'
    """
    text = re.sub(r"^(Return|Answer with) ", "", sentence.replace("\n", " ")).rstrip(".")
    return text[:1].upper() + text[1:]


def group_of(path: str) -> str:
    """Return the group of a route, by which pages list them.

    Examples
    --------
    >>> [group_of(path) for path in ("/knn", "/map/nearest", "/", "/metrics")]
    ['Questions', 'The map', 'The map', 'Care']
    """
    first = path.split("/")[1]
    return next((name for name, paths in _PATHS.items() if first in paths), "Questions")


def _plain(path: str) -> str:
    """Return a path as OpenAPI writes it, without the types of its parts."""
    return re.sub(r"\{([^}:]+):[^}]*\}", r"{\1}", path)
