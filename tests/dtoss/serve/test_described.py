"""What generators of clients need of ``GET /openapi.json``: names, types that are listed once, bits, and no null."""

from __future__ import annotations

import json
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from openapi_schema_validator import OAS31Validator

from dtoss.serve.answers.responses import wants_arrow
from dtoss.serve.auth.route_table import CALLS, OPEN, READER
from dtoss.serve.description import GROUPS, name_types, parameter_of
from tests.dtoss.serve.calling import BODIES, SMALL, ground_in
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.events.listening import FENCES, Watch
from tests.dtoss.serve.served import Asker, Intake, running, town
from tests.dtoss.watch.streams import POLYGON
from tests.dtoss.watch.streams import asked as fence
from tests.dtoss.windows.storage.kept import SECOND, begin, commit

JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
FREE = {"Problem", "PositionRow", "Hit", "Event", "WindowRow", "FlowRow", "Description"}
"""Types that have fields of other names: attributes, measures, what a problem tells besides."""
FREE_FIELDS = {"attributes", "properties", "geometry"}
"""Fields that are the user's, or GeoJSON's."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("report")
    (made / "report.html").write_text("<p>report</p>")
    return made


@pytest.fixture(scope="module")
def asked(folder):
    """What a worker says of itself, by how ids are to come; of one that is alone, and of one of a plan."""
    index = town(objects=60)
    given = {"report": str(folder), "allow_subscribe": True, "basemap": ground_in(folder)}
    with running(index, **given) as alone, Asker(alone) as asker:
        texts = {ids: asker.get("/openapi.json", ids=ids) for ids in (None, "string", "number")}
    dealt_out = dealt(index, 2, "contiguous", np.random.default_rng(0))
    with several(index, dealt_out, 2, **given) as others, Asker(others[0]) as asker:
        return texts | {"several": asker.get("/openapi.json")}


@pytest.fixture(params=[None, "string", "number", "several"])
def text(asked, request):
    return asked[request.param]


def operations(text):
    return [(method, path, one) for path, some in text["paths"].items() for method, one in some.items()]


def schemas(text):
    """All schemas of the text, with where they stand."""
    found = []

    def walk(schema, where):
        found.append((where, schema))
        for name, one in schema.get("properties", {}).items():
            walk(one, f"{where}.{name}")
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                walk(schema[name], f"{where}.{name}")
        for name in ("anyOf", "oneOf"):
            for one in schema.get(name, []):
                walk(one, f"{where}.{name}")

    for title, schema in text["components"]["schemas"].items():
        walk(schema, title)
    for method, path, one in operations(text):
        for parameter in one["parameters"]:
            walk(parameter["schema"], f"{method} {path} {parameter['name']}")
        for of in (one.get("requestBody", {}), *one["responses"].values()):
            for kind, content in of.get("content", {}).items():
                walk(content["schema"], f"{method} {path} {kind}")
    return found


def test_each_route_has_a_name_of_its_own(text):
    """One that is no word of a language; a class for each group, and no other."""
    names = [one["operationId"] for _, _, one in operations(text)]
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", name) for name in names)
    assert not {"range", "import", "default", "delete", "in", "is"} & set(names)
    assert max(Counter(names).values()) == 1
    assert {(method.upper(), path) for method, path, _ in operations(text)} <= {(one.method, one.path) for one in CALLS}
    assert [one["name"] for one in text["tags"]] == list(GROUPS)
    assert {tag for _, _, one in operations(text) for tag in one["tags"]} == set(GROUPS)


def test_a_name_is_of_one_route():
    names = {(call.name, call.method, call.path) for call in CALLS}
    assert max(Counter(name for name, _, _ in names).values()) == 1


def test_each_parameter_has_one_type_which_is_never_null(text):
    """What is in a path is always wanted."""
    types = text["components"]["schemas"]
    for method, path, one in operations(text):
        assert set(re.findall(r"\{(\w+)\}", path)) == {
            each["name"] for each in one["parameters"] if each["in"] == "path"
        }
        for each in one["parameters"]:
            schema = types[each["schema"]["$ref"].rpartition("/")[2]] if "$ref" in each["schema"] else each["schema"]
            assert isinstance(schema["type"], str), (method, path, each)
            assert each["description"]
            assert each["name"] not in ("radius", "max_distance") or schema["minimum"] == 0.0
            assert not {"oneOf", "anyOf", "exclusiveMaximum"} & set(schema)
            assert each["in"] != "path" or (each["required"] and "default" not in each["schema"])


def test_each_answer_has_a_type(text):
    """Of 304 alone there is nothing to read; what is wrong is a Problem everywhere."""
    for method, path, one in operations(text):
        for status, answer in one["responses"].items():
            assert status == "304" or answer["content"], (method, path, status)
            for kind, content in answer.get("content", {}).items():
                assert content["schema"], (method, path, status, kind)
        if path not in ("/partial", "/forward"):
            assert {"4XX", "5XX"} <= set(one["responses"])
        for status in ("4XX", "5XX"):
            ((kind, content),) = one["responses"][status]["content"].items()
            assert (kind, content["schema"]) == ("application/problem+json", {"$ref": "#/components/schemas/Problem"})
        json_ = one["responses"]["200"]["content"].get(JSON)
        assert json_ is None or "$ref" in json_["schema"], (method, path)
        assert json_ is None or next(iter(one["responses"]["200"]["content"])) == JSON  # the first one is taken


def test_numbers_have_their_bits(text):
    """Where a number has none, Go makes float32 of it, and Java Integer."""
    for where, schema in schemas(text):
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if "integer" in kinds:
            assert schema["format"] in ("int32", "int64"), where
            assert schema["format"] == "int64" or schema.get("maximum", 0) < 2**31 or where == "Problem.status"
        elif "number" in kinds and "string" not in kinds:
            assert schema["format"] == "double", where


def test_what_may_be_null_is_no_choice_of_types(text):
    """And no choice has a list in it: that is no type in Java."""
    for where, schema in schemas(text):
        for one in (*schema.get("anyOf", []), *schema.get("oneOf", [])):
            assert one.get("type") not in ("null", "array"), where


def test_objects_say_their_fields(text):
    for where, schema in schemas(text):
        if "object" in schema.get("type", []):
            title, _, field = where.partition(".")
            known = schema.get("properties") or isinstance(schema.get("additionalProperties"), dict)
            assert known or field in FREE_FIELDS or title in FREE, where
            assert schema.get("additionalProperties") is not True or title in FREE or field in FREE_FIELDS, where
            assert set(schema.get("required", [])) <= set(schema.get("properties", {})), where


def test_choices_have_names_and_constants_of_their_own(text):
    """All constants of a package share one room in Go."""
    types = text["components"]["schemas"]
    for where, schema in schemas(text):
        if len(schema.get("enum", [])) > 1:
            assert where in types, where
    constants = [
        name
        for schema in types.values()
        for name in schema.get("x-enum-varnames", [one.upper() for one in schema.get("enum", [])])
        if len(schema.get("enum", [])) > 1 or "x-enum-varnames" in schema
    ]
    assert max(Counter(constants).values()) == 1, constants
    assert {"IdsAs", "EventKind", "SubscriptionEvent", "AnswerFormat"} <= set(types)


def test_references_lead_to_types_and_each_type_is_used(text):
    types = text["components"]["schemas"]
    named = set(re.findall(r"#/components/schemas/(\w+)", str(text)))
    assert named == set(types)
    assert {"Problem", "Polygon", "MultiPolygon", "Feature", "FeatureCollection", "Hit", "ObjectId"} <= named
    assert types["Hit"]["additionalProperties"] is True  # attributes: clients would drop what is not told of
    for name in ("Shape", "Geometry"):
        assert types[name]["discriminator"]["propertyName"] == "type"
        assert set(types[name]["discriminator"]["mapping"].values()) == {one["$ref"] for one in types[name]["oneOf"]}


def test_who_may_ask_is_said(text, folder, tmp_path):
    """By a scheme that has a name; it is wanted where a server has tokens, and of no page."""
    ((name, scheme),) = text["components"]["securitySchemes"].items()
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert text["security"] == [{}, {name: []}]
    (tmp_path / "tokens").write_text("one s3cret-s3cret\n")
    given = {"token_file": str(tmp_path / "tokens"), "report": str(folder), "basemap": ground_in(tmp_path)}
    with running(town(objects=20), **given) as server, Asker(server) as asker:
        text = asker.get("/openapi.json")
    assert text["security"] == [{name: []}]
    open_to_all = {f"{call.method} {call.path}" for call in CALLS if call.who == OPEN}
    assert {f"{method.upper()} {path}" for method, path, one in operations(text) if one.get("security") == []} == (
        open_to_all
    )


@pytest.mark.parametrize("strings", [False, True])
def test_ids_are_told_of_as_they_come(strings):
    """As both, as text alone, which has to be asked for then, or as numbers of 64 bits alone."""
    with running(town(strings=strings, objects=60)) as server, Asker(server) as asker:
        texts = {ids: asker.get("/openapi.json", ids=ids) for ids in (None, "string", "number")}
        assert asker.raw("/openapi.json?ids=bits")[0] == 400
    ids = {name: text["components"]["schemas"]["ObjectId"] for name, text in texts.items()}
    if strings:
        assert [one["type"] for one in ids.values()] == ["string"] * 3
    else:
        assert [one["type"] for one in ids[None]["anyOf"]] == ["integer", "string"]
        assert (ids["string"]["type"], ids["number"]["type"], ids["number"]["format"]) == ("string", "integer", "int64")
    asked = {
        name: {path: each for _, path, one in operations(text) for each in one["parameters"] if each["name"] == "ids"}
        for name, text in texts.items()
    }
    assert set(asked[None]) == set(asked["string"]) > {"/knn", "/within", "/objects/{object_id}"}
    assert set(asked["number"]) == {"/openapi.json", "/ogc/api"}
    for path, one in asked["string"].items():
        assert one["required"] == (path not in asked["number"])
    assert texts["string"]["components"]["schemas"]["IdsAsText"]["enum"] == ["string"]


def test_servers_of_a_plan_take_partial_answers(asked):
    def takes(text):
        return {path for _, path, one in operations(text) for each in one["parameters"] if each["name"] == "partial"}

    assert takes(asked[None]) == set()
    assert takes(asked["several"]) > {"/knn", "/range", "/within", "/objects/{object_id}"}


THERE = fence("c", POLYGON, polygon='{"type":"Polygon","coordinates":[[[0,0],[0.02,0],[0.01,0.02],[0,0]]]}')


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A worker with windows, a watch with events, and a report."""
    made = tmp_path_factory.mktemp("full")
    home, fixed = begin(made / "store", name="fleet")
    rng = np.random.default_rng(0)
    for number in range(2):
        t = rng.integers(number * 60 * SECOND, (number + 1) * 60 * SECOND, 150).tolist()
        commit(home, fixed, [(int(rng.integers(9)), one, *rng.uniform(-2, 12, 2).tolist()) for one in t])
    Watch(made / "store").begin([*FENCES, THERE]).batch()
    (made / "report").mkdir()
    (made / "report" / "report.html").write_text("<p>report</p>")
    given = {"store": str(made / "store"), "report": str(made / "report"), "allow_subscribe": True}
    given |= {"allow_positions": True, "intake": Intake(), "basemap": ground_in(made)}
    with running(town(objects=300), **given) as server:
        yield server


MORE = [
    "/knn?lon=10&lat=50&columns=speed,name&ids=string", "/range?lon=10&lat=50&radius=9000&limit=5",
    "/box?west=9&south=49&east=11&north=51&count=true", "/objects/1?cell=true", "/events?after=beginning&limit=5",
    "/windows", "/windows/fleet?changed=true", "/ogc/collections/cells/items?limit=3", "/ogc/collections/partitions",
    "/ogc/collections/partitions/items/0", "/map/subscription?id=c", "/subscriptions?limit=1", "/subscriptions/a",
]  # fmt: skip
PATHS = [
    *(SMALL.get(call.path, call.path) for call in CALLS if call.method == "GET" and call.who == READER),
    *MORE,
]


@pytest.mark.parametrize("path", [path for path in PATHS if path not in ("/live", "/events")])
def test_answers_are_as_they_are_described(full, path):
    """By the type that the text names; of answers that are no JSON there is one of bytes."""
    with Asker(full) as asker:
        text = asker.get("/openapi.json")
        status, headers, body = asker.raw(path.replace("{snapshot}", full.serving.now.name))
    routes = {re.sub(r"{\w+}", "[^/?]+", route): of["get"] for route, of in text["paths"].items() if "get" in of}
    (said,) = [of for route, of in routes.items() if re.fullmatch(route, path.partition("?")[0])][:1]
    content = said["responses"].get(str(status), said["responses"].get(f"{status // 100}XX"))["content"]
    kind = headers["content-type"].partition(";")[0]
    assert kind in content
    if kind.endswith("json"):
        OAS31Validator({**content[kind]["schema"], "components": text["components"]}).validate(json.loads(body))


BODIES_ASKED = {
    **BODIES, "/knn": {"positions": [[10, 50]]}, "/locate": {"positions": [[10, 50]]},
    "/reverse_nearest": {"positions": [[10, 50]]}, "/range": {"positions": [[10, 50]], "radius": [9]},
    "/count": {"positions": [[10, 50]], "radius": [9]},
}  # fmt: skip


@pytest.mark.parametrize("path", BODIES_ASKED)
def test_bodies_and_their_answers_are_as_they_are_described(full, path):
    with Asker(full) as asker:
        text = asker.get("/openapi.json")
        status, _, body = asker.raw(path, "POST", json.dumps(BODIES_ASKED[path]), content_type=JSON)
    assert status == 200, body
    said = text["paths"][path]["post"]
    for content, value in (
        (said["requestBody"]["content"][JSON], BODIES_ASKED[path]), (said["responses"]["200"]["content"][JSON], body),
    ):  # fmt: skip
        value = json.loads(value) if isinstance(value, bytes) else value
        OAS31Validator({**content["schema"], "components": text["components"]}).validate(value)


def test_two_types_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two types are called Count"):
        name_types([{"title": "Count", "type": "integer"}, {"title": "Count", "type": "string"}], {})


def test_a_parameter_of_several_types_is_refused():
    """There is no way to say it in a URL that all generators know."""
    given = {"name": "a", "in": "query", "description": "A.", "required": False}
    with pytest.raises(ValueError, match="too many values"):
        parameter_of(given | {"schema": {"type": ["integer", "string", "null"]}})


@pytest.mark.parametrize(
    ("accepted", "wanted"),
    [
        (ARROW, True), (f"{ARROW}, {JSON}", True), (f"{JSON}, {ARROW}", False),
        (f"{JSON}, {ARROW}, application/problem+json", False), (f"{JSON};q=0.5, {ARROW}", True),
        (f"{ARROW};q=0.1,{JSON};q=0.9", False), (f"{ARROW};q=0", False), (f"text/html, {ARROW};q=0.2, */*;q=0.1", True),
        (JSON, False), ("*/*", False), ("", False), (f"{ARROW};q=x", False),
    ],
)  # fmt: skip
def test_who_names_json_first_gets_json(accepted, wanted):
    """Generated clients name all that there is."""
    assert wants_arrow(SimpleNamespace(headers={"accept": accepted})) is wanted


def test_a_client_that_names_all_types_reads_json_by_either_way(folder):
    with running(town(objects=20)) as hot, running(town(objects=20), hot=False) as cold:
        for server in (hot, cold):
            with Asker(server) as asker:
                for accept, kind in ((f"{JSON}, {ARROW}, application/problem+json", JSON), (ARROW, ARROW)):
                    for path in ("/knn?lon=10&lat=50", "/objects/1", "/box?west=9&south=49&east=11&north=51"):
                        assert asker.raw(path, accept=accept)[1]["content-type"] == kind
