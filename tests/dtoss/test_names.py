"""Attributes may be called anything: nothing of ours is replaced, and their values come back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtoss
from dtoss.export_files import write
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.names import RESERVED, free_names, not_carried, renames
from tests.dtoss.snapshots.damaged_stores import stored

N = 60
PLACES = np.random.default_rng(8).uniform(-3.0, 3.0, (N, 2))
AWKWARD = (
    *RESERVED,
    *("Lon", "ID", "RANK", "lon_", "id__", "Distance_"),
    *("a b", "it's", 'say "x"', "back`tick", "a.b", "çé😀", "日本", "where", "select", "x" * 3000, "\n", "%", "a:b"),
    *("1", "--"),
    *("row", "count", "part", "item", "home", "key", "index", "columns"),
)  # fmt: skip
SETS = {
    "all": AWKWARD,
    "reserved": RESERVED,
    "collisions": ("lon_", "lon", "LON", "id", "id_", "lon__"),
    "empty": ("", "id"),
    "none": (),
}


def values(name):
    """Text of each object that no position, distance or id can be mistaken for."""
    return [f"{name[:9]}-{i % 7}" for i in range(N)]


def as_stored(name, names):
    """The rule by itself: every reserved name in code point order takes the first one that is free."""
    lower = {other.lower() for other in names} | set(RESERVED)
    given = {}
    for other in sorted(names):
        if other.lower() in RESERVED:
            fresh = other + "_"
            while fresh.lower() in lower:
                fresh += "_"
            lower.add(fresh.lower())
            given[other] = fresh
    return given.get(name, name)


def built(names, partitions=3, **options):
    return dtoss.build(
        np.arange(N), PLACES, partitions=partitions, columns={name: values(name) for name in names}, **options
    )


@given(st.lists(st.sampled_from([*AWKWARD, "lat_", "LAT", "Lat_", "Kind", "kind"]), unique=True), st.randoms())
def test_the_rule(names, random):
    """Names differ from each other and from ours in any case, the order does not matter, and twice is as once."""
    free = free_names(names)
    assert list(free) == names
    assert len({*free.values()}) == len(names)
    assert not {name.lower() for name in free.values()} & set(RESERVED)
    assert free == {name: as_stored(name, names) for name in names}
    assert {name: name for name in names if name.lower() not in RESERVED}.items() <= free.items()
    assert free_names(free.values()) == {name: name for name in free.values()}
    shuffled = random.sample(names, len(names))
    assert free_names(shuffled) == free
    assert renames(names) == {name: fresh for name, fresh in free.items() if name != fresh}


def asked(index, name, fresh, queries):
    """Call every public method, with an attribute where it takes one; return which ones were called."""
    wanted = values(name)
    quoted = '"' + fresh.replace('"', '""') + '"'
    condition = f"{quoted} = '{wanted[3].replace(chr(39), chr(39) * 2)}' and id >= 0"
    right = {i for i in range(N) if wanted[i] == wanted[3]}
    corners = [[-2.0, -2.0], [2.0, -2.0], [2.0, 2.0], [-2.0, 2.0]]
    methods = {
        "knn": lambda **o: index.knn(queries, 5, **o),
        "range": lambda **o: index.range(queries, 2e5, **o),
        "range_batches": lambda **o: next(index.range_batches(queries, 2e5, **o)),
        "box": lambda **o: index.box([-2.0, -2.0, 2.0, 2.0], **o),
        "within": lambda **o: index.within(corners, **o),
        "within_batches": lambda **o: next(index.within_batches([corners], **o)),
    }
    for method, ask in methods.items():
        plain, hits = ask(), ask(columns=[fresh])
        assert list(hits) == list(plain), method
        table = hits.to_arrow()
        assert table.column_names == ["query", "id", "distance", "rank", fresh]
        assert table["id"].to_pylist() == plain.id.tolist()
        assert table["distance"].to_pylist() == plain.distance.tolist()
        assert table["query"].to_pylist() == plain.query.tolist()
        assert table["rank"].to_pylist() == plain.rank().tolist()
        assert table[fresh].to_pylist() == [wanted[i] for i in plain.id.tolist()]
        assert hits.to_pandas()[fresh].tolist() == table[fresh].to_pylist()
        if name:  # SQL has no empty name
            having = ask(having=condition, columns=[fresh])
            assert list(having) == [row for row in plain if row[1] in right], method
            assert set(having.columns[fresh].to_pylist()) <= {wanted[3]}
            assert set(ask(where=condition).id.tolist()) <= right, method
    if name:
        assert index.count(queries, 1e7, where=condition).tolist() == [len(right)] * len(queries)
        assert index.count_box([-9, -9, 9, 9], where=condition).tolist() == [len(right)]
        assert index.count_within(4.4 * np.array(corners) / 2, where=condition).tolist() == [len(right)]
        found = index.search(queries, np.full(len(queries), np.inf), N)
        assert index.satisfying(found, condition).tolist() == [i in right for i in index.ids_of(found).to_pylist()]
    frame = index.objects(columns=[fresh])
    assert frame.columns.tolist() == ["id", "partition", fresh, "geometry"]
    assert frame[fresh].tolist() == [wanted[i] for i in frame["id"].tolist()]
    if name:
        assert set(index.objects(where=condition)["id"]) == right
    return {*methods, "count", "count_box", "count_within", "search", "satisfying", "ids_of", "objects"}


MANY = pytest.mark.deep("all awkward names; each is stored in make test, and those of ours are in every index")


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        pytest.param(how, kind, marks=MANY if kind == "all" and how != "stored" else ())
        for how in ("built", "stored", "older store")
        for kind in SETS
    ],
)
def test_every_method_with_every_name(how, kind, tmp_path):
    """Of an index in process, of a store, and of a store whose files hold the names as they were given."""
    names = SETS[kind]
    free = {name: as_stored(name, names) for name in names}
    index = built(names)
    if how != "built":
        before = {fresh: name for name, fresh in free.items()} if how == "older store" else None
        index = dtoss.open(stored(index, tmp_path / "store", attributes=before))
    assert index.column_names == list(free.values())
    called = {"column_names"}
    for name, fresh in free.items():
        called |= asked(index, name, fresh, PLACES[:4] + 0.01)
    x, y = PLACES[5].tolist()
    assert index[5] == {"id": 5, "lon": x, "lat": y} | {fresh: values(name)[5] for name, fresh in free.items()}
    assert list(index[5])[:3] == ["id", "lon", "lat"]
    assert 5 in index
    assert index.locate(PLACES[5]).tolist() == [5]
    alike = built(())
    assert list(index.reverse_nearest(PLACES[:3] + 0.1)) == list(alike.reverse_nearest(PLACES[:3] + 0.1))
    assert index.neighbours(5).tolist() == alike.neighbours(5).tolist()
    assert (index.cell(5) == alike.cell(5)).all()
    assert index.area(5) == alike.area(5)
    rows = {"id": [5], "lon": [x + 1.0], "lat": [y]} | {fresh: [values(name)[6]] for name, fresh in free.items()}
    changed = {"id": 5, "lon": x + 1.0, "lat": y} | {fresh: values(name)[6] for name, fresh in free.items()}
    assert index.with_updates(rows)[5] == changed
    called |= {"locate", "reverse_nearest", "neighbours", "cell", "area", "with_updates"}
    if names:
        facts = {"crs", "bounds", "sites", "border", "place_of"}  # which no attribute touches
        facts |= {"filters", "search_vectors"}  # asked by `where` and by searches
        facts |= {"cells", "regions", "plot"}  # of places alone
        facts |= {"ask"}  # by which searches go
        facts |= {"save"}  # of files, which test_save_index reads
        assert called | facts == {name for name in dir(Index) if not name.startswith("_")}
    write(index, "objects", str(tmp_path / "objects.parquet"))
    table = pq.read_table(tmp_path / "objects.parquet")
    assert table.column_names == ["id", "partition", *free.values(), "geometry", "bbox"]
    for name, fresh in free.items():
        assert table[fresh].to_pylist() == [values(name)[i] for i in table["id"].to_pylist()]


def test_a_plane_reserves_the_same_names():
    """One list everywhere: lon_ is lon_ in the plane too."""
    index = built(("x", "lon", "speed"), crs="none")
    assert index.column_names == ["x_", "lon_", "speed"]
    assert index[3] | {"x": 0, "y": 0} == {
        "id": 3, "x": 0, "y": 0, "x_": values("x")[3], "lon_": values("lon")[3], "speed": values("speed")[3],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("lon", r"'lon' is not carried .*carry lon_, Kind.*; an attribute lon is called lon_ here"),
        ("LON", r"'LON' is not carried .*; an attribute LON is called lon_ here"),
        ("kind", r"'kind' is not carried .*; did you mean Kind\?"),
        ("Knid", r"'Knid' is not carried .*; did you mean Kind\?"),
        ("speed", r"'speed' is not carried .*Kind(, id|, lon, lat)$"),
        ("rank", r"'rank' is not carried .*Kind(, id|, lon, lat)$"),
    ],
)
def test_a_name_that_is_not_carried_leads_to_the_one_that_is(asked, words):
    """In conditions before and after, and in columns."""
    index = built(("lon", "Kind"))
    if asked == "lon":  # of the object itself, not the attribute
        assert (
            index.knn([0.0, 0.0], columns=[asked]).columns["lon"].to_pylist() == index.knn([0.0, 0.0]).positions[:, 0]
        )
    else:
        with pytest.raises(ValueError, match=words):
            index.knn([0.0, 0.0], columns=[asked])
    for condition in ("where", "having"):
        with pytest.raises(ValueError, match=words):
            index.knn([0.0, 0.0], **{condition: f"{asked} = 'a'"})
    assert not_carried("a", []) == "column 'a' is not carried by the objects; they carry none"


def test_hits_that_others_make():
    """Also a table of hits whose columns somebody else named keeps what is ours."""
    hits = Hits(np.array([0]), np.array([7]), np.array([1.5]), {"distance": pa.array([99.0]), "id": pa.array(["a"])})
    assert hits.to_arrow().to_pylist() == [
        {"query": 0, "id": 7, "distance": 1.5, "rank": 1, "distance_": 99.0, "id_": "a"}
    ]


def test_columns_of_a_build_are_named_by_text():
    """A table without names has numbers for them."""
    with pytest.raises(ValueError, match="a column is called 0: names are text"):
        dtoss.build([1], [[0.0, 0.0]], columns={0: [1]})
