"""Tokens that may see some objects and columns: each answer is the one of a server that has no others."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from urllib.parse import quote

import numpy as np
import pytest

import dtoss
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.rights.seen import COLUMNS, OWN, asked, bearer, both_said, doors_of, told
from tests.dtoss.serve.served import Asker, object_path, running, target, town, until
from tests.examples import examples

ARROW = "application/vnd.apache.arrow.stream"
SNAPSHOT_FACTS = ("commit", "crs", "metric", "unit", "bounds", "id_type", "partitions")


@pytest.fixture(scope="module")
def index():
    """An index on the sphere."""
    return town(objects=1_500, partitions=12)


@pytest.fixture(scope="module")
def server(index, tmp_path_factory):
    """One server with tokens."""
    with running(index, doors=doors_of(tmp_path_factory.mktemp("one")), token_file="tokens") as found:
        yield found


@pytest.fixture(scope="module")
def ask(server):
    """Returns the answer to a question of a token, by its name."""
    with ExitStack() as stack:
        askers = {}

        def answer(name, path, method="GET", body=None, headers=None, **parameters):
            if name not in askers:
                askers[name] = stack.enter_context(Asker(server, **bearer(name)))
            body = body if body is None or isinstance(body, bytes) else json.dumps(body)
            kind = {} if body is None else {"content-type": "application/json"}
            return askers[name].raw(target(path, **parameters), method, body, **kind, **(headers or {}))

        yield answer


def seen_of(index):
    """The ids of the objects that the token ``some`` sees, and those of all."""
    everything = [one for part in index.parts.all() for one in part.ids[: part.owned_objects].tolist()]
    found = index.filters.get(OWN)
    mine = [part.ids[found.rows(part)].tolist() for part in index.parts.all()]
    return sorted(one for some in mine for one in some), sorted(everything)


def compare(index, rng, count, some, narrow, every, snapshot):
    """Ask random questions with tokens, and with their condition said by hand; every other one of a few columns."""
    kinds = set()
    for number in range(count):
        few = number % 2 == 0
        method, path, parameters, body = asked(index, rng, (*COLUMNS, "lat", "lon")) if few else asked(index, rng)
        path = path.replace("{snapshot}", snapshot)
        arrow = {"accept": ARROW} if number % 5 == 0 and not path.startswith(("/map", "/tiles")) else {}
        sent = None if body is None else json.dumps(body)
        kind = arrow | ({} if sent is None else {"content-type": "application/json"})
        by_hand = parameters | {"where": both_said(parameters["where"])}
        wanted = every.raw(target(path, **by_hand), method, sent, **kind)
        for one in (some, narrow) if few else (some,):
            found = one.raw(target(path, **parameters), method, sent, **kind)
            assert told(found) == told(wanted), (method, path, parameters, body)
        kinds.add((method, path.split("/")[1], wanted[0]))
    return kinds


def test_questions_of_a_token_are_those_with_its_condition(index, server):
    """All routes and kinds, one place and many, JSON and Arrow, tiles, the hot way and the long one."""
    with (
        Asker(server, **bearer("some")) as some,
        Asker(server, **bearer("narrow")) as narrow,
        Asker(server, **bearer("all")) as every,
    ):
        count, rng = examples(1_000, 150), np.random.default_rng(3)
        kinds = compare(index, rng, count, some, narrow, every, server.serving.now.name)
    assert {route for _, route, status in kinds if status == 200} >= {"knn", "range", "count", "box", "within", "tiles"}


@pytest.mark.deep("the same in a plane, with ids beyond 2^53")
def test_questions_of_a_token_are_those_with_its_condition_in_a_plane(tmp_path):
    index = town("plane", objects=1_500, partitions=12)
    with (
        running(index, doors=doors_of(tmp_path)) as server,
        Asker(server, **bearer("some")) as some,
        Asker(server, **bearer("narrow")) as narrow,
        Asker(server, **bearer("all")) as every,
    ):
        compare(index, np.random.default_rng(5), 500, some, narrow, every, server.serving.now.name)
        assert some.get("/snapshot")["objects"] == index.filters.get(OWN).count


def test_questions_of_a_token_are_those_with_its_condition_on_a_plan(index, tmp_path):
    """Five servers with random shares: each asks the others under the condition of who asked it."""
    rng = np.random.default_rng(4)
    doors = doors_of(tmp_path)
    given = {"token": "t-peers", "doors": doors, "token_file": "tokens"}
    with (
        running(index, doors=doors, token_file="tokens") as alone,
        several(index, dealt(index, 5, "random", rng), 5, **given) as servers,
        Asker(alone, **bearer("all")) as every,
        ExitStack() as stack,
    ):
        for one in servers:
            until(lambda one=one: len(one.state.circle.said) == 4)
        some = [stack.enter_context(Asker(one, **bearer("some"))) for one in (servers[0], servers[3])]
        for _ in range(examples(1_000, 60)):
            method, path, parameters, body = asked(index, rng)
            if path.startswith(("/tiles", "/map")):
                continue  # of what a server holds alone
            sent = None if body is None else json.dumps(body)
            kind = {} if sent is None else {"content-type": "application/json"}
            by_hand = parameters | {"where": both_said(parameters["where"])}
            wanted = told(every.raw(target(path, **by_hand), method, sent, **kind))
            for one in some:
                assert told(one.raw(target(path, **parameters), method, sent, **kind)) == wanted, (path, parameters)
        seen, everything = seen_of(index)
        facts = some[0].get("/snapshot")
        assert facts["objects"] == len(seen)
        for object_id in rng.permutation(everything)[:30].tolist():
            found = some[1].raw(object_path(object_id))
            assert found[0] == (200 if object_id in seen else 404)
        status, _, body = some[0].raw(target("/map/nearest", lon=10, lat=50))
        assert (status, json.loads(body)["limit"]) == (501, "where")


def test_an_object_that_is_not_seen_is_one_that_there_is_not(index, ask):
    seen, everything = seen_of(index)
    hidden = sorted(set(everything) - set(seen))
    for path in ("/objects/{}", "/map/object/{}"):
        for object_id in (*hidden[:20], 10**9):
            status, _, body = ask("some", path.format(object_id))
            assert status == 404
            assert json.loads(body)["detail"].replace(f"'{object_id}'", "'N'") == (
                f"no object has the id 'N' in snapshot {json.loads(ask('all', '/snapshot')[2])['snapshot']}"
            )
        for object_id in seen[:20]:
            mine, theirs = (json.loads(ask(name, path.format(object_id))[2]) for name in ("some", "all"))
            for name in ("neighbours", "cell", "area"):
                assert name not in mine
                theirs.pop(name, None)
            assert mine == theirs
            narrow = json.loads(ask("narrow", path.format(object_id))[2])
            assert list(narrow["attributes"]) == list(COLUMNS)
    assert ask("some", f"/objects/{seen[0]}", cell="true")[0] == 403
    assert ask("columns", f"/objects/{seen[0]}", cell="true")[0] == 200
    assert ask("columns", f"/objects/{hidden[0]}")[0] == 200


def test_a_place_is_that_of_the_nearest_object_that_is_seen(index, ask):
    rng = np.random.default_rng(0)
    places = rng.normal([10.0, 50.0], 0.05, (30, 2)).tolist()
    wanted = [int(index.knn(place, 1, where=OWN).id[0]) for place in places]
    assert [json.loads(ask("some", "/locate", lon=x, lat=y)[2])["id"] for x, y in places] == wanted
    assert json.loads(ask("some", "/locate", "POST", {"positions": places})[2])["ids"] == wanted
    for given in ({"lon": 10, "lat": 50}, {"method": "POST", "body": {"positions": places}}):
        status, _, body = ask("nothing", "/locate", **given)
        assert (status, json.loads(body)["detail"]) == (400, "the index is empty: no object owns a place")


def test_hidden_and_missing_columns_are_alike(ask):
    """In conditions on objects and hits, columns, classes of tiles and errors of bodies, with each near name."""
    at = {"lon": 10, "lat": 50}
    ring = {"type": "Polygon", "coordinates": [[[10, 50], [10.1, 50], [10, 50.1], [10, 50]]]}
    snapshot = json.loads(ask("all", "/snapshot")[2])["snapshot"]
    cases = [
        ("/knn", {**at, "where": "{} is not null"}, {}), ("/knn", {**at, "having": "{} is null"}, {}),
        ("/knn", {**at, "columns": "speed,{}"}, {}), ("/range", {**at, "radius": 9, "where": "{} = 'a'"}, {}),
        ("/range", {**at, "radius": 9, "limit": 3, "having": "{} = 'a'"}, {}),
        ("/count", {**at, "radius": 9, "where": "speed > 1 or {} = 'a'"}, {}),
        ("/box", {"west": 1, "south": 1, "east": 2, "north": 2, "columns": "{}"}, {}),
        ("/knn", {"columns": "{}"}, {"body": {"positions": [[1, 2]]}}),
        ("/range", {"radius": 1, "having": "{} is null"}, {"body": {"positions": [[1, 2]]}}),
        ("/count", {"radius": 1, "where": "{} is null"}, {"body": {"positions": [[1, 2]]}}),
        ("/within", {"where": "{} is null"}, {"body": ring}), ("/within", {"having": "{} is null"}, {"body": ring}),
        ("/map/nearest", {**at, "where": "{} is null"}, {}),
        ("/map/within", {}, {"body": {"circle": [1, 1, 1, 2], "where": "{} is null"}}),
        (f"/tiles/{snapshot}/objects/0/0/0.mvt", {"by": "{}"}, {}),
        (f"/tiles/{snapshot}/objects/0/0/0.mvt", {"where": "{} is null"}, {}),
    ]  # fmt: skip
    for path, parameters, more in cases:
        answers = []
        for name in ("seen", "Zeen"):  # the one is there, and the other is not; a name as near to all others
            given = {key: str(value).replace("{}", name) for key, value in parameters.items()}
            body = json.dumps(more["body"]).replace("{}", name).encode() if more else None
            status, _, said = ask("narrow", path, "POST" if more else "GET", body, **given)
            assert status == 400, (path, given, said)
            answers.append(json.loads(said)["detail"].replace(name, "N"))
            assert not any(hidden in answers[-1] for hidden in ("share", "seen", "name is"))
        assert answers[0] == answers[1]
    for name in ("narrow", "columns"):
        status, _, said = ask(name, "/knn", **at, columns="*")
        assert (status, json.loads(said)["detail"]) == (
            400, "column '*' is not carried by the objects; they carry speed, free, lon, lat",
        )  # fmt: skip


def test_errors_tell_of_objects_that_are_seen_alone(tmp_path):
    """A cast that fails in a hidden row fails for nobody; no error shows the token's condition."""
    texts = ["1", "2", "secret"]
    index = dtoss.build(np.arange(3), np.zeros((3, 2)), columns={"text": texts, "owner": ["a", "a", "b"]})
    doors = doors_of(tmp_path, "mine t-mine where=\"owner = 'a'\" columns=text\nall t-all\n")
    with (
        running(index, doors=doors) as server,
        Asker(server, **bearer("mine")) as mine,
        Asker(server, **bearer("all")) as every,
    ):
        asks = {"lon": 0, "lat": 0, "where": "cast(text as int) > 1"}
        assert every.raw(target("/knn", **asks))[0] == 400
        assert [hit["id"] for hit in mine.get("/knn", **asks)["hits"]] == [1]
        assert mine.get("/count", radius=1, **asks)["count"] == 1
        status, _, body = mine.raw(
            target("/knn", **(asks | {"where": "cast(text as int) / 0 > 1 or cast(text as date) is null"}))
        )
        said = json.loads(body)["detail"]
        assert status == 400
        assert "owner" not in said
        assert "secret" not in said
        assert said.startswith("where 'cast(text as int) / 0 > 1")


def test_no_part_of_a_long_condition_is_in_an_error(tmp_path):
    """Nor where its middle is left out, as a problem has a bound."""
    index = dtoss.build(np.arange(2), np.zeros((2, 2)), columns={"text": ["x", "y"], "owner": ["a", "a"]})
    own = f"owner = 'a' and owner <> '{chr(0x200B) * 300}'"
    doors = doors_of(tmp_path, f'mine t-mine where="{own}"\n')
    with running(index, doors=doors) as server, Asker(server, **bearer("mine")) as mine:
        status, _, body = mine.raw(target("/count", lon=0, lat=0, radius=1, where="cast(text as int) = 1"))
        assert (status, b"owner" in body, b"case" in body) == (400, False, False)


def test_answers_are_kept_for_one_token_alone(server, ask):
    """ETags of tokens differ, those of one are the same on both ways; tiles are not kept by who may see some."""
    at = {"lon": 10, "lat": 50, "k": 3}
    tags = {name: ask(name, "/knn", **at)[1]["etag"] for name in ("all", "some", "narrow", "columns", "nothing")}
    assert len(set(tags.values())) == len(tags)
    for name, tag in tags.items():
        for other, its in tags.items():
            status = ask(name, "/knn", headers={"if-none-match": its}, **at)[0]
            assert (status == 304) == (other == name and its == tag)
    path = f"/tiles/{server.serving.now.name}/objects/3/4/2.mvt"
    assert ask("all", path)[1]["cache-control"] == "private, max-age=31536000, immutable"
    assert ask("some", path)[1]["cache-control"] == "no-store"
    assert "authorization" in ask("all", path)[1]["vary"]
    status, _, body = ask("all", "/range", lon=10, lat=50, radius=9e5, limit=5)
    following = json.loads(body)["next"]
    status, _, body = ask("some", "/range", lon=10, lat=50, radius=9e5, limit=5, cursor=following)
    assert (status, json.loads(body)["limit"]) == (400, "cursor")


def test_pages_of_a_range_are_those_of_the_condition(ask):
    found, following = [], None
    while True:
        page = json.loads(ask("some", "/range", lon=10, lat=50, radius=9e6, limit=97, cursor=following)[2])
        found += page["hits"]
        if (following := page.get("next")) is None:
            break
    assert found == json.loads(ask("all", "/range", lon=10, lat=50, radius=9e6, where=OWN)[2])["hits"]


def test_too_many_hits_are_counted_of_what_is_seen(tmp_path):
    from dtoss.serve.core.server_settings import Limits

    index = town(objects=700)
    seen, _ = seen_of(index)
    with (
        running(index, doors=doors_of(tmp_path), limits=Limits(hits=200, k=1_000)) as server,
        Asker(server, **bearer("some")) as some,
    ):
        for path, method, body in (
            ("/range?lon=10&lat=50&radius=9e6", "GET", None), ("/box?west=0&south=0&east=20&north=60", "GET", None),
            ("/range?radius=9e6", "POST", {"positions": [[10, 50]]}),
        ):  # fmt: skip
            status, _, said = some.raw(
                path, method, None if body is None else json.dumps(body), content_type="application/json"
            )
            assert status == 413
            assert json.loads(said)["value"] == len(seen)
        status, _, said = some.raw(
            "/knn?k=900", "POST", json.dumps({"positions": [[10, 50]]}), content_type="application/json"
        )
        assert (status, json.loads(said)["value"]) == (413, 900)  # not how many there are


def test_what_is_made_of_all_objects_is_refused(server, ask):
    snapshot = server.serving.now.name
    for path, method, body in (
        ("/reverse_nearest?lon=10&lat=50", "GET", None), ("/reverse_nearest", "POST", {"positions": [[10, 50]]}),
        *((f"/tiles/{snapshot}/{layer}/3/4/2.mvt", "GET", None) for layer in ("cells", "regions", "uncertified")),
    ):  # fmt: skip
        assert ask("some", path, method, body)[0] == 403, path
        assert ask("sums", path, method, body)[0] == 403, path
        assert ask("columns", path, method, body)[0] == 200, path
    for path in ("/windows", "/windows/no", "/windows/no/regions", "/map/load?slot=0"):
        for name in ("some", "columns", "narrow"):
            status, _, said = ask(name, path)
            assert (status, "aggregates" in json.loads(said)["detail"]) == (403, True)
        assert ask("sums", path)[0] != 403
    for path in ("/forward", "/partial"):
        assert ask("some", path, "POST", b"")[0] in (403, 404)


def test_metrics_are_for_admins(ask, tmp_path):
    """Where a line says so; where none does, who may see all reads them as before."""
    assert [ask(name, "/metrics")[0] for name in ("boss", "all", "some", "sums", "columns")] == [200, *[403] * 4]
    doors = doors_of(tmp_path, 'all t-all\nsome t-some where="speed > 1"\n')
    assert [doors.is_admin(doors.admit(f"Bearer t-{name}".encode())) for name in ("all", "some")] == [True, False]


def test_the_map_and_the_snapshot_tell_of_what_is_seen(index, ask):
    seen, _ = seen_of(index)
    whole, some, narrow, columns = (
        json.loads(ask(name, "/snapshot")[2]) for name in ("all", "some", "narrow", "columns")
    )
    assert [one["objects"] for one in (whole, some, narrow, columns)] == [1_500, len(seen), len(seen), 1_500]
    assert [set(one["columns"]) for one in (some, narrow)] == [set(whole["columns"]), set(COLUMNS)]
    assert all(one[name] == whole[name] for one in (some, narrow, columns) for name in SNAPSHOT_FACTS)
    assert "sites" not in some
    whole, some, narrow = (json.loads(ask(name, "/map")[2]) for name in ("all", "some", "narrow"))
    assert [one["objects"] for one in (whole, some, narrow)] == [1_500, len(seen), len(seen)]
    assert [layer["name"] for layer in some["layers"]] == ["objects"]
    assert (some["regions"]["objects"], some["history"], some["plan"]) == ([], [], None)
    assert [one["name"] for one in narrow["columns"]] == list(COLUMNS)
    (labels,) = (one["classes"] for one in some["columns"] if one["name"] == "speed")
    (labels_of_all,) = (one["classes"] for one in whole["columns"] if one["name"] == "speed")
    assert all(int(number) < 20 for label in labels for number in re.findall(r"[0-9]+", label)), labels
    assert labels != labels_of_all


def test_a_map_of_some_is_that_of_an_index_of_them(index):
    """Samples, classes and which tiles show all of theirs are by the objects that are seen, not by all."""
    from dtoss.serve.tiles.tiling import Tiles, Whole

    own = index.filters.get(OWN)
    rows = [own.rows(part) for part in index.parts.all()]
    ids = np.concatenate([part.ids[some] for part, some in zip(index.parts.all(), rows, strict=True)])
    at = np.concatenate([part.positions[some] for part, some in zip(index.parts.all(), rows, strict=True)])
    speed = np.concatenate(
        [np.asarray(part.attributes["speed"])[some] for part, some in zip(index.parts.all(), rows, strict=True)]
    )
    alone = dtoss.build(ids, at, columns={"speed": speed})
    for most in (10**6, 100):
        given = {"most": most, "whole": Whole(50, 20)}
        ours, theirs = Tiles(index, among=own, **given), Tiles(alone, **given)
        for z, x, y in ((0, 0, 0), (5, 16, 10), (10, 540, 347), (12, 2162, 1388), (13, 4324, 2777)):
            for by in (None, "speed"):
                assert ours.objects(z, x, y, by) == theirs.objects(z, x, y, by), (most, z, by)
        assert ours.classes("speed").labels == theirs.classes("speed").labels


def test_a_condition_that_does_not_fit_lets_nobody_see(index, tmp_path):
    doors = doors_of(tmp_path, 'lost t-lost where="operator = 1"\nall t-all\n')
    with running(index, doors=doors) as server, Asker(server, **bearer("lost")) as lost:
        for path in (
            "/knn?lon=10&lat=50",
            "/objects/1",
            "/snapshot",
            "/map",
            "/locate?lon=1&lat=2",
            "/count?lon=1&lat=1&radius=1",
        ):
            status, _, body = lost.raw(path)
            said = json.loads(body)["detail"]
            assert (status, "operator" in said) == (403, False), path
            assert said.startswith("the condition of token lost does not fit")


def test_a_route_without_a_row_is_for_nobody_who_sees_some():
    from types import SimpleNamespace

    from dtoss.serve.auth.tokens import ADMITTED, EVERYBODY, Token
    from dtoss.serve.core.problems import Problem
    from dtoss.serve.rights.sight import check_call

    request = SimpleNamespace(method="GET", scope={"path_template": "/new", ADMITTED: Token("a", b"", where="x = 1")})
    with pytest.raises(Problem, match="see all"):
        check_call(None, request)
    request.scope[ADMITTED] = EVERYBODY
    check_call(None, request)


def test_ids_with_slashes_and_texts(tmp_path):
    index = town(strings=True, objects=300)
    doors = doors_of(tmp_path)
    seen, everything = seen_of_texts(index)
    with running(index, doors=doors) as server, Asker(server, **bearer("some")) as some:
        for object_id in everything[:40]:
            assert some.raw(f"/objects/{quote(object_id, safe='')}")[0] == (200 if object_id in seen else 404)


def seen_of_texts(index):
    """The ids that the token ``some`` sees, and those of all, of an index with texts for ids."""
    found = index.filters.get(OWN)
    everything = [one for part in index.parts.all() for one in part.ids.to_pylist()[: part.owned_objects]]
    mine = {part.ids[int(row)].as_py() for part in index.parts.all() for row in found.rows(part)}
    return mine, sorted(everything)


def test_an_object_under_a_condition_is_asked_for_so_that_an_older_server_refuses():
    """It knows five flags of such a question, and would look at no condition; the others are as they were."""
    from dtoss.serve.answers.json_out import ObjectQuestion
    from dtoss.serve.cluster.wire_messages import pack_question, read_message

    plain = ObjectQuestion("7", False, True, False, False)
    for where, columns in ((None, None), ("a = 1", None), (None, ()), ("a = 1", ("b", "c"))):
        asked = ObjectQuestion("7", False, True, False, False, where, columns)
        message, read = read_message(pack_question(asked, "s", 1.0))
        assert read == asked
        assert len(message.flags) == (5 if asked == plain else 6)
