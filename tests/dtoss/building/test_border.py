"""After the fix every cell is exact, whatever was certified before; files of partitions and borders come back whole."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from datasets.cities.taxis import make_fleet
from datasets.degenerate import PLANE, SPHERE, degenerate
from datasets.fleet import fleet_at
from datasets.hotspots import hotspots
from datasets.uniform import uniform_plane, uniform_sphere
from dtoss.building.border import Border, BorderTable, border_of, fix, join_shares
from dtoss.cells.cell_polygons import shapes
from dtoss.cells.voronoi import voronoi
from dtoss.errors import StoreError
from dtoss.export.cell_rings import border_edges, cells_of
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.hilbert import curve_keys, radix_order
from dtoss.partition import Partition
from dtoss.snapshots.partition_file import decode, decode_border, encode, encode_border
from tests.dtoss.scenes import engine_of, in_partitions, neighbour_sets, taxis
from tests.examples import examples

ROWS = examples(3000, 1000)


def table_of(batches):
    return pa.Table.from_batches(list(batches))


MADE = {
    "uniform plane": lambda: table_of(uniform_plane(ROWS, seed=1)),
    "uniform sphere": lambda: table_of(uniform_sphere(ROWS, seed=1)),
    "hotspots": lambda: table_of(hotspots(ROWS, seed=2, count=12)),
    "fleet": lambda: table_of(fleet_at(make_fleet(ROWS, seed=3), 3600.0)),
    "taxis": lambda: pa.table(dict(zip(("lon", "lat"), taxis(np.random.default_rng(4), ROWS).T, strict=True))),
    **{f"{kind} plane": (lambda kind=kind: table_of(degenerate(kind, examples(500, 200), seed=5))) for kind in PLANE},
    **{
        f"{kind} sphere": (lambda kind=kind: table_of(degenerate(kind, examples(500, 200), seed=5, metric="sphere")))
        for kind in SPHERE
    },
}


@pytest.mark.parametrize(("name", "partitions"), in_partitions(MADE, "taxis", "great-circle sphere", "ring plane"))
def test_with_lambda_0_every_cell_is_exact(name, partitions):
    """Neighbours and areas of all sites are those of one diagram of all sites; an edge is listed by both its ends."""
    made = MADE[name]()
    x, y = ("lon", "lat") if "lon" in made.column_names else ("x", "y")
    positions = np.stack([made[x].to_numpy(), made[y].to_numpy()], axis=1)
    crs = "EPSG:4326" if x == "lon" else "none"
    index = dtoss.build(np.arange(len(positions)), positions, crs=crs, partitions=partitions, reach=0.0)
    sites = np.unique(index.space.vectors(positions), axis=0)
    sites = np.ascontiguousarray(sites[radix_order(curve_keys(sites))])
    bounds = None if index.bounds is None else np.array(index.bounds)
    whole = voronoi(sites, bounds)
    number = {site.tobytes(): i for i, site in enumerate(sites)}
    total = whole.area.sum()
    scale = 1.0 if index.bounds is not None else EARTH_RADIUS**2
    view = engine_of(index).view
    found = [set() for _ in sites]
    area = np.full(len(sites), np.nan)
    for partition in index.parts.all():
        own = [number[site.tobytes()] for site in partition.sites[: partition.owned_sites]]
        assert np.isnan(area[own]).all()
        area[own] = np.concatenate([cells.area for cells in cells_of(view, partition)] or [np.zeros(0)]) / scale
        for i, listed in zip(own, all_listed(partition, index.border), strict=True):
            found[i] = {number[vector.tobytes()] for vector in listed}
    assert area == pytest.approx(whole.area, rel=1e-9, abs=1e-14 * total)
    edges = edges_of(sites, found, bounds, view.shortest)
    assert edges == edges_of(sites, neighbour_sets(whole), bounds, view.shortest)
    assert edges == {(j, i) for i, j in edges}


def edges_of(sites, near, bounds, shortest):
    """The edges that have a length, of cells cut by the sites that each one has near it."""
    first = np.concatenate([[0], np.cumsum([len(n) for n in near])])
    others = np.array([j for n in near for j in sorted(n)], dtype=np.int64)
    cells = shapes(sites, first, sites[others], bounds)
    real = cells.owner >= 0
    length = np.bincount(cells.owner[real], cells.length[real], minlength=len(others))
    cell = np.repeat(np.arange(len(sites)), np.diff(first))
    counts = length > shortest
    return set(zip(cell[counts].tolist(), others[counts].tolist(), strict=True))


def all_listed(partition, border):
    """All that partition and border table list for each owned site."""
    graph, left = partition.graph, set(partition.uncertified.tolist())
    listed = [
        [] if at in left else list(partition.sites[graph.neighbours[slice(*graph.first[at : at + 2])]])
        for at in range(partition.owned_sites)
    ]
    site, first, others = border_edges(partition, border)
    for row, at in enumerate(site.tolist()):
        listed[at] += list(others[first[row] : first[row + 1]])
    return listed


def test_lambda_0_certifies_less_and_copies_nothing():
    """What the fix has to do without copies: more than with them, and nothing is sent."""
    positions = taxis(np.random.default_rng(7), 20_000)
    bare = dtoss.build(np.arange(20_000), positions, partitions=7, reach=0.0)
    chosen = dtoss.build(np.arange(20_000), positions, partitions=7)
    assert sum(len(p.sites) - p.owned_sites for p in bare.parts.all()) == 0
    left = [sum(len(p.uncertified) for p in index.parts.all()) for index in (bare, chosen)]
    assert left[0] > left[1]
    assert [int(index.border.open.sum()) for index in (bare, chosen)] == left


# -- files ------------------------------------------------------------------------------------------------------------


def small_index(strings, dimension=3, n=9000):
    rng = np.random.default_rng(8)
    positions = taxis(rng, n) if dimension == 3 else rng.integers(0, 90, (n, 2)).astype(float)
    ids = pa.array([f"taxi {i}" for i in range(n)]) if strings else np.arange(n)
    columns = {
        "speed": rng.uniform(0, 30, n),
        "plate": pa.array([None if i % 7 == 0 else f"p{i}" for i in range(n)]),
    }
    crs = "EPSG:4326" if dimension == 3 else "none"
    return dtoss.build(ids, positions, crs=crs, partitions=4, columns=columns)


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, pa.Array):
        assert a.type == b.type
        assert a.equals(b)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for name in a:
            assert_same(a[name], b[name])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    else:
        assert a == b


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("dimension", [2, 3])
def test_partitions_come_back_from_their_files(strings, dimension):
    """Every array with its type, and the same bytes again."""
    index = small_index(strings, dimension)
    assert any(len(p.levels) for p in index.parts.all())
    for partition in index.parts.all():
        data = encode(partition)
        back = decode(data, "a file")
        assert isinstance(back, Partition)
        assert_same(partition, back)
        assert encode(back).to_pybytes() == data.to_pybytes()


@pytest.mark.parametrize(("partitions", "reach"), [(1, [np.inf]), (2, [9.0, 9.0])])
def test_what_is_copied_reaches_as_far_as_is_said_where_there_are_others(partitions, reach):
    index = dtoss.build(np.arange(3), [[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]], partitions=partitions, reach=9.0)
    assert index.reach.tolist() == reach


@pytest.mark.parametrize("strings", [False, True])
def test_borders_come_back_from_their_files(strings):
    """Shares and the table, empty ones too."""
    index = small_index(strings)
    for partition in index.parts.all():
        share = border_of(partition)
        back = decode_border(encode_border(share), "a file")
        assert isinstance(back, Border)
        assert len(share.edges) > 0
        assert_same(share, back)
    table = decode_border(encode_border(index.border), "a file")
    assert isinstance(table, BorderTable)
    assert_same(index.border, table)
    empty = dtoss.build([], np.zeros((0, 2)))
    assert_same(empty.border, decode_border(encode_border(empty.border), "a file"))


@pytest.mark.parametrize("strings", [False, True])
def test_shares_that_came_together_make_the_same_table(strings):
    """However many partitions a task had, and whatever the order of the tasks' files."""
    index = small_index(strings)
    shares = [border_of(partition) for partition in index.parts.all()]
    alone = encode_border(fix(shares, None))
    assert all(len(share.edges) for share in shares)
    groups = [join_shares([shares[i] for i in some]) for some in ([3, 1], [2], [0])]
    kept = [decode_border(encode_border(group), "share") for group in groups]
    assert encode_border(fix(kept, None)) == alone


def test_a_column_of_another_type_is_named_with_the_type_it_should_have():
    table = small_index(strings=False).border
    wrong = encode_border(dataclasses.replace(table, neighbours=table.neighbours.astype(np.int64)))
    with pytest.raises(StoreError, match=r"a file .* \(neighbours is int64, not int32 without nulls\)"):
        decode_border(wrong, "a file")


@pytest.mark.parametrize("cut", [0, 10, 1000])
def test_damaged_files_are_named(cut):
    """A short file of either kind is an error that names it."""
    index = small_index(strings=False)
    for data, read in ((encode(index.parts[0]), decode), (encode_border(index.border), decode_border)):
        with pytest.raises(StoreError, match="some/file"):
            read(pa.py_buffer(data.to_pybytes()[:cut]), "some/file")
