"""OGC API Features: ``GET /ogc`` and what stands below it; features come in the order of their ids, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote, urlencode

import numpy as np
import orjson
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.response.base import ASGIResponse

from dtoss.geometry.space import NO_CRS
from dtoss.names import did_you_mean
from dtoss.queries.covered import boxes_of
from dtoss.serve.answers.json_out import JSON_TYPE, id_of, seen_at
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, answer_of_now, kept_answer, unless_modified
from dtoss.serve.bulk.query_pieces import middles_of
from dtoss.serve.core.pool import Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.log_lines import note
from dtoss.serve.ogc.collections import (
    COLLECTIONS,
    CONFORMS,
    CRS84,
    GEOJSON,
    OBJECT_POINTS,
    REGION_SHAPES,
    Collection,
    Page,
    box_of,
    collections_of,
    extent_of,
    feature_at,
    features_of,
    interval_of,
    pieces_of,
    region_features,
    times_of,
)
from dtoss.serve.ogc.pages_by_id import Box, Choice, regions_of
from dtoss.serve.requests.chunked_responses import answer_in_chunks
from dtoss.serve.requests.front import MIN_SEQ
from dtoss.serve.requests.served_watch import home_of, of_watch
from dtoss.serve.rights.sight import Sight, check_whole, sight_of
from dtoss.serve.routes.map_queries import check_alone
from dtoss.serve.routes.ogc_watch import NO_INTERVAL, watch_feature, watch_page
from dtoss.serve.routes.parameters import (
    Cursor,
    Ids,
    Snapshot,
    Where,
    check_condition,
    check_question,
    first_of_page,
    question_sum,
    told,
    unknown_cursor,
    write_cursor,
)
from dtoss.serve.routes.point_queries import both_of
from dtoss.serve.routes.schemas import (
    ANYTHING,
    NATURAL,
    NUMBER,
    STRING,
    also,
    array,
    fields,
    maybe,
    responses,
)
from dtoss.serve.state.worker_state import WorkerState

ROOT = "/ogc"
_NUMBER = re.compile(r"[0-9]{1,9}").fullmatch
USUAL_PAGE, LONGEST_PAGE = 1_000, 10_000
"""Features of a page where nothing is said, and at the most."""
OPENAPI_TYPE = "application/vnd.oai.openapi+json;version=3.1"
_JSON, _GEOJSON = JSON_TYPE.decode(), GEOJSON.decode()
LINK = also(fields("Link", href=STRING, rel=STRING), type=STRING, title=STRING)
LANDING = fields("LandingPage", title=STRING, description=STRING, links=array(LINK))
CONFORMANCE = fields("Conformance", conformsTo=array(STRING))
FEATURES_EXTENT = fields(
    "Extent", (),
    spatial=fields("SpatialExtent", bbox=array(array(NUMBER)), crs=STRING),
    temporal=fields("TemporalExtent", interval=array(array(maybe(STRING))), trs=STRING),
)  # fmt: skip
COLLECTION = also(
    fields("Collection", id=STRING, title=STRING, description=STRING, itemType=STRING, crs=array(STRING),
           links=array(LINK)), extent=FEATURES_EXTENT,
)  # fmt: skip
ALL_COLLECTIONS = fields("Collections", collections=array(COLLECTION), links=array(LINK))
ONE_FEATURE = also(
    fields("Item", type={"type": "string", "enum": ["Feature"]}, id={}, geometry=maybe(ANYTHING), properties=ANYTHING),
    links=array(LINK),
)  # fmt: skip
FEATURE_PAGE = also(
    fields("Items", type={"type": "string", "enum": ["FeatureCollection"]}, features=array(ONE_FEATURE),
           links=array(LINK), numberReturned=NATURAL), numberMatched=NATURAL,
)  # fmt: skip
Interval: TypeAlias = tuple[datetime | None, datetime | None]
"""Two ends, both included; None where it is open."""
_OF_WATCH = frozenset(one.name for one in COLLECTIONS if one.of_watch)
Name: TypeAlias = Annotated[str, PathParameter(description="Of the collection, such as objects.")]


def handlers(state: WorkerState) -> list[HTTPRouteHandler]:
    """Return the routes of OGC API Features."""
    limits, serving = state.settings.limits, state.serving
    most = min(LONGEST_PAGE, limits.hits)
    page_size: Any = QueryParameter(default=min(USUAL_PAGE, most), ge=1, le=most, description="Features of a page.")
    begin_of: Any = QueryParameter(default=None, max_length=2_000, description="Of the link `next` of the page before.")
    box: Any = QueryParameter(
        name="bbox", default=None, max_length=500, description="west,south,east,north in degrees; or with heights."
    )
    during: Any = QueryParameter(
        name="datetime", default=None, max_length=200, description="A time, or two with / between; .. is open."
    )

    def base(request: Asker) -> str:
        return (state.settings.public_url or f"{request.scope['scheme']}://{_host_of(request)}") + ROOT

    @get(ROOT, opt={"responses": responses(LANDING, kept=False)})
    async def landing(request: Asker) -> ASGIResponse:
        """Return where everything is of OGC API Features."""
        root = base(request)
        links = [
            _link(root, "self", _JSON), _link(f"{root}/conformance", "conformance", _JSON),
            _link(f"{root}/collections", "data", _JSON), _link(f"{root}/api", "service-desc", OPENAPI_TYPE),
            _link(f"{root.removesuffix(ROOT)}/docs", "service-doc", "text/html"),
        ]  # fmt: skip
        said = {"title": "dtoss", "description": "Objects where they are now, and cells of them.", "links": links}
        return _plain(serving.now, said)

    @get(f"{ROOT}/conformance", opt={"responses": responses(CONFORMANCE, kept=False)})
    async def conformance(request: Asker) -> ASGIResponse:
        """Return to which parts of the standard answers conform."""
        return _plain(serving.now, {"conformsTo": CONFORMS})

    def said_of(one: Collection, sight: Sight, root: str) -> dict[str, object]:
        """Return what is told of a collection; in a thread."""
        served = sight.served
        extent = {"spatial": {"bbox": [[-180.0, -90.0, 180.0, 90.0]], "crs": CRS84}}
        if one is OBJECT_POINTS:
            extent = extent_of(served.whole, served.tiles.frame, sight.own(), times_of(served, sight.columns))
        url = f"{root}/collections/{one.name}"
        return {
            "id": one.name, "title": one.title, "description": one.said, "itemType": "feature", "crs": [CRS84],
            "extent": extent, "links": [_link(url, "self", _JSON), _link(f"{url}/items", "items", _GEOJSON)],
        }  # fmt: skip

    @get(f"{ROOT}/collections", opt={"responses": responses(ALL_COLLECTIONS)})
    async def collections(request: Asker, snapshot: Snapshot = None) -> ASGIResponse:
        """Return the collections of features, and the extent of each."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        check_degrees(served)
        sight, root = sight_of(state, request, served), base(request)
        check_alone(served, sight.token.where)

        def work(stop: Stop) -> bytes:
            some = collections_of(served.whole, sight.token.where is not None, state.home is not None)
            links = [_link(f"{root}/collections", "self", _JSON)]
            return orjson.dumps({"collections": [said_of(one, sight, root) for one in some], "links": links})

        return kept_answer(request, served, await state.pool.run(request, work))

    @get(f"{ROOT}/collections/{{collection:str}}", opt={"responses": responses(COLLECTION)})
    async def collection_(request: Asker, collection: Name, snapshot: Snapshot = None) -> ASGIResponse:
        """Return what a collection is, and its extent."""
        served = serving.named(snapshot)
        if same := unless_modified(request, served):
            return same
        one, sight = collection_seen(request, served, collection)

        def work(stop: Stop) -> bytes:
            return orjson.dumps(said_of(one, sight, base(request)))

        return kept_answer(request, served, await state.pool.run(request, work))

    def collection_seen(request: Asker, served: ServedSnapshot, name: str) -> tuple[Collection, Sight]:
        """Return the collection of a name and what a request sees of a snapshot."""
        check_degrees(served)
        sight = sight_of(state, request, served)
        named = {one.name: one for one in COLLECTIONS}
        if name not in named:
            raise Problem(
                404, f"there is no collection {name[:100]!r}{did_you_mean(name, named)}: {', '.join(named)} are",
                limit="collection", value=name[:100],
            )  # fmt: skip
        one = named[name]
        if one.of_all:
            check_whole(sight.token, f"collection {name}")
        if one.of_watch:
            home_of(state)
        if one not in collections_of(served.whole, narrowed=False, watched=True):
            raise Problem(
                404, f"collection {name} is not here: its polygons need objects, and pip install 'dtoss[geo]'",
                limit="collection", value=name,
            )  # fmt: skip
        check_alone(served, sight.token.where)
        return one, sight

    def pieces_on(request: Asker, root: str, one: Collection, page: Page, following: str | None) -> Iterator[bytes]:
        """Return the JSON of a page; ``following``: the cursor of the next one."""
        note(request.scope, hits=len(page.features))
        url = f"{root}/collections/{one.name}"
        links = [_link(_url_of(f"{url}/items", request), "self", _GEOJSON), _link(url, "collection", _JSON)]
        if following is not None:
            links.append(_link(_url_of(f"{url}/items", request, following), "next", _GEOJSON))
        said: dict[str, Any] = {} if page.matched is None else {"numberMatched": page.matched}
        return pieces_of(page.features, {**said, "numberReturned": len(page.features), "links": links})

    async def of_watch_items(
        request: Asker, name: str, bbox: str | None, datetime_: str | None, limit: int, cursor: str | None
    ) -> ASGIResponse:
        served = serving.now
        one, sight = collection_seen(request, served, name)
        (sides, interval), root = box_and_interval(bbox, datetime_), base(request)

        def work(stop: Stop) -> bytes:
            with of_watch(state):
                page = watch_page(state, one, sight.token, sides, interval or NO_INTERVAL, cursor, limit, stop)
            return b"".join(pieces_on(request, root, one, page, page.last))

        return answer_of_now(served, await state.pool.run(request, work), GEOJSON)

    @get(f"{ROOT}/collections/{{collection:str}}/items", opt={"responses": _as_geojson(FEATURE_PAGE)})
    async def items(
        request: Asker,
        collection: Name,
        bbox: str | None = box,
        datetime_: str | None = during,
        where: Where = None,
        limit: int = page_size,
        cursor: str | None = begin_of,
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return features of a collection in the order of their ids, page by page."""
        if collection in _OF_WATCH:
            if where or snapshot:
                raise Problem(400, f"where and snapshot are for objects: {collection} are of the watch", limit="where")
            return await of_watch_items(request, collection, bbox, datetime_, limit, cursor)
        begin = first_of_page(cursor, snapshot)
        served = serving.named(snapshot if begin is None else begin.snapshot)
        if same := unless_modified(request, served):
            return same
        one, sight = collection_seen(request, served, collection)
        check_condition(where, limits.condition_length)
        if where and one is not OBJECT_POINTS:
            raise Problem(400, f"where is for objects: {one.name} are found by bbox", limit="where")
        sides, interval = box_and_interval(bbox, datetime_)
        times = times_of(served, sight.columns) if one is OBJECT_POINTS and interval is not None else None
        question = question_sum(one.name, sides, interval, where, sight.token.mark)
        check_question(begin, question)
        after, text_ids, root = None if begin is None else begin.id, ids == "string", base(request)
        texts = served.index.string_ids and one is not REGION_SHAPES
        if after is not None and isinstance(after, str) != texts:
            raise unknown_cursor()

        async def make(stop: Stop) -> Iterator[bytes]:
            index, frame = served.whole, served.tiles.frame
            seen = sight.condition(where)
            if times is not None and interval is not None and (timed := times.condition(*interval)):
                seen = sight.condition(both_of(index, where or None, timed))
            # of a share all partitions are read, as for what else is told of them
            conditions = served.conditions if served.share is None else served.conditions.on(index)
            choice = Choice(index, frame, sides, seen, None if seen is None else conditions.get(seen))
            page = features_of(one, choice, sight.columns, after, limit, text_ids, stop)
            shown = (0 if begin is None else begin.after) + limit
            following = None if page.last is None else Cursor(served.name, question, shown, 0.0, page.last)
            return pieces_on(request, root, one, page, None if following is None else write_cursor(following))

        response = await answer_in_chunks(state, request, served, GEOJSON, make)
        _tell_place(state, request, served, sides)
        return response

    @get(f"{ROOT}/collections/{{collection:str}}/items/{{item:path}}", opt={"responses": _as_geojson(ONE_FEATURE)})
    async def item_(
        request: Asker,
        collection: Name,
        item: Annotated[str, PathParameter(description="The id of the feature, such as 42.")],
        ids: Ids = "number",
        snapshot: Snapshot = None,
    ) -> ASGIResponse:
        """Return one feature of a collection."""
        text = item.removeprefix("/")
        served = serving.named(snapshot)
        if collection not in _OF_WATCH and (same := unless_modified(request, served)):
            return same
        one, sight = collection_seen(request, served, collection)
        root = base(request)

        def work(stop: Stop) -> bytes:
            index, seen = served.whole, sight.condition(None)
            if one.of_watch:
                with of_watch(state):
                    found = watch_feature(state, one, sight.token, text, stop)
            elif one is REGION_SHAPES:
                number = int(text) if _NUMBER(text) else len(index.parts)
                found = region_features(regions_of(index), np.array([number]))[0] if number < len(index.parts) else None
            else:
                place = index.place_of(id_of(index, text)) if seen is None else seen_at(served, text, seen)
                found = feature_at(one, index, served.tiles.frame, place, sight.columns, ids == "string")
            if found is None:
                raise KeyError(text)
            url = f"{root}/collections/{one.name}"
            links = [_link(f"{url}/items/{quote(text, safe='')}", "self", _GEOJSON), _link(url, "collection", _JSON)]
            return orjson.dumps({**found, "links": links})

        try:
            body = await state.pool.run(request, work)
        except KeyError:
            raise Problem(
                404, f"{one.name} have no feature of the id {text[:100]!r} in snapshot {served.name}", limit="item",
                value=text[:100],
            ) from None  # fmt: skip
        note(request.scope, hits=1)
        if one.of_watch:
            return answer_of_now(served, body, GEOJSON)
        return kept_answer(request, served, body, GEOJSON)

    return [landing, conformance, collections, collection_, items, item_]


def box_and_interval(bbox: str | None, interval: str | None) -> tuple[Box | None, Interval | None]:
    """Return what the parameters say."""
    with told():
        return None if bbox is None else box_of(bbox), None if interval is None else interval_of(interval)


def check_degrees(served: ServedSnapshot) -> None:
    """Refuse a plane without a CRS: its places have no longitude and latitude."""
    if served.index.space.crs == NO_CRS:
        raise Problem(
            501, "the store's plane has no CRS, and features are in longitude and latitude: ask by /box or /range",
            limit="crs",
        )  # fmt: skip


def _plain(served: ServedSnapshot, said: dict[str, Any]) -> Ready:
    """Return an answer that is of no snapshot."""
    return answer_of_now(served, orjson.dumps(said))


def _as_geojson(schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    found = responses(schema)
    found[200]["content"] = {_GEOJSON: {"schema": schema}}
    return found


def _link(href: str, rel: str, kind: str) -> dict[str, str]:
    return {"href": href, "rel": rel, "type": kind}


def _host_of(request: Asker) -> str:
    """Return the host that was asked for, which has been looked at; of HTTP/1.0 without one the server's address."""
    host, port = request.scope["server"] or ("localhost", None)
    return request.headers.get("host") or f"{host}:{port}"


def _url_of(url: str, request: Asker, cursor: str | None = None) -> str:
    """Return the URL of a question, or that of its page behind a cursor."""
    pairs = list(request.query_params.multi_items())
    if cursor is not None:
        pairs = [(name, value) for name, value in pairs if name not in ("cursor", "snapshot", MIN_SEQ)] + [
            ("cursor", cursor)
        ]
    return f"{url}?{urlencode(pairs)}" if pairs else url


def _tell_place(state: WorkerState, request: Asker, served: ServedSnapshot, box: Box | None) -> None:
    """Tell the access log of a box on the sphere; without one nothing says where."""
    if box is not None and served.index.space.geographic:
        positions, radii = middles_of(served.index.space, boxes_of([box], served.index.space))
        note(request.scope, positions=positions)
        state.accesses.many(positions[:, 0], positions[:, 1], None, radii)
