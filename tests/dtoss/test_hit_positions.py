"""Where the objects of hits are: by columns, by the index that was asked, in frames of other libraries."""

from __future__ import annotations

import pickle

import geopandas
import numpy as np
import polars
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings

import dtoss
from dtoss.hits import Hits
from tests.dtoss.answering import answering
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples


def index_of(positions, *, strings=False, partitions=1, **options):
    ids = [f"ü{i}" for i in range(len(positions))] if strings else np.arange(len(positions)) * 7 - 3
    kinds = {"kind": [f"k{i % 3}" for i in range(len(positions))]}
    return dtoss.build(ids, positions, columns=kinds, partitions=partitions, **options), dict(
        zip(list(ids), np.asarray(positions, np.float64).reshape(-1, 2).tolist(), strict=True)
    )


def asked_in_all_ways(index, places, names):
    """Hits of each kind of question, the same with coordinates as columns, as pairs."""
    shape = [(-20.0, -20.0), (20.0, -20.0), (20.0, 20.0), (-20.0, 20.0)]
    for columns in ((), names, (names[1], "kind", names[0])):
        yield index.knn(places, 3, columns=columns), columns
        yield index.knn(places[0], 2, columns=columns), columns
        yield index.range(places, 5e5, columns=columns), columns
        yield index.knn(places, 2, where="kind <> 'k0'", columns=columns), columns
        yield index.within(shape, columns=columns), columns
        yield index.box((-20.0, -20.0, 20.0, 20.0), columns=columns), columns
        yield from ((hits, columns) for hits in index.range_batches(places, 5e5, batch_size=3, columns=columns))
    yield index.reverse_nearest(places), ()
    yield index.knn(places, 3)[1:4], ()
    yield index.knn(places, 3)[::-1], ()


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("strings", [False, True])
@settings(deadline=None, max_examples=examples(30))
@given(positions=lonlat())
def test_positions_on_the_sphere_are_those_that_were_given(partitions, strings, positions):
    """Whatever was asked; by columns, and by the ids of hits."""
    index, truth = index_of(positions, strings=strings, partitions=partitions)
    for hits, columns in asked_in_all_ways(index, np.array([[0.0, 0.0], [179.9, 89.0], [3.0, 4.0]]), ("lon", "lat")):
        wanted = np.array([truth[one] for one in hits.id.tolist()]).reshape(-1, 2)
        np.testing.assert_array_equal(hits.positions, wanted)
        assert list(hits.columns) == list(columns)
        for axis, name in enumerate(("lon", "lat")):
            if name in columns:
                assert hits.columns[name].to_pylist() == wanted[:, axis].tolist()
                assert hits.to_arrow()[name].to_pylist() == wanted[:, axis].tolist()


@settings(deadline=None, max_examples=examples(30))
@given(positions=planar())
def test_positions_in_a_plane_are_called_x_and_y(positions):
    """And lon is no column there."""
    index, truth = index_of(positions, crs="none", partitions=2)
    for hits, _ in asked_in_all_ways(index, np.array([[0.0, 0.0], [50.0, 1.0]]), ("x", "y")):
        np.testing.assert_array_equal(hits.positions, np.array([truth[one] for one in hits.id.tolist()]).reshape(-1, 2))
    with pytest.raises(ValueError, match="column 'lon' is not carried"):
        index.knn([0.0, 0.0], columns=["lon"])


def test_an_attribute_of_the_same_name_is_another_column():
    """It is called ``lon_`` when the index is built."""
    index = dtoss.build([1, 2], [[0.0, 1.0], [2.0, 3.0]], columns={"lon": ["a", "b"]})
    hits = index.knn([2.0, 3.0], 1, columns=["lon", "lon_"])
    assert hits.to_arrow().select(["lon", "lon_"]).to_pylist() == [{"lon": 2.0, "lon_": "b"}]


def test_hits_that_nobody_knows_the_place_of():
    """Made by hand or pickled: the message says what to ask."""
    index, _ = index_of([[1.0, 2.0], [3.0, 4.0]])
    hits = index.knn([1.0, 2.0], 2)
    for lost in (pickle.loads(pickle.dumps(hits)), Hits(hits.query, hits.id, hits.distance, {})):
        assert lost == hits
        assert lost.crs is None
        with pytest.raises(ValueError, match=r"ask with columns=\['lon', 'lat'\]"):
            _ = lost.positions
    kept = pickle.loads(pickle.dumps(index.knn([1.0, 2.0], 2, columns=["lon", "lat"])))
    assert kept.positions.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert kept.to_geopandas(crs="EPSG:4326").crs == "EPSG:4326"
    assert kept.to_geopandas().crs is None


def test_hits_as_a_geodataframe():
    """Positions as points, the CRS of the index, all columns; none at all is a frame too."""
    index, truth = index_of([[500_000.0, 4_000_000.0], [500_100.0, 4_000_000.0]], crs="EPSG:32610")
    hits = index.knn([500_000.0, 4_000_000.0], 2, columns=["kind"])
    frame = hits.to_geopandas()
    assert isinstance(frame, geopandas.GeoDataFrame)
    assert frame.crs == "EPSG:32610"
    assert frame.columns.tolist() == ["query", "id", "distance", "rank", "kind", "geometry"]
    assert frame["id"].tolist() == hits.id.tolist()
    assert shapely.get_coordinates(frame.geometry).tolist() == [truth[one] for one in hits.id.tolist()]
    none = index.range([0.0, 0.0], 1.0).to_geopandas()
    assert len(none) == 0
    assert none.crs == "EPSG:32610"
    with pytest.raises(ValueError, match="'EPSG:4326' is not 'EPSG:32610' of the hits"):
        hits.to_geopandas(crs="EPSG:4326")
    plane = dtoss.build([1], [[0.0, 0.0]], crs="none").knn([0.0, 0.0]).to_geopandas()
    assert plane.crs is None


@pytest.mark.parametrize("strings", [False, True])
def test_hits_as_other_tables(strings):
    """Polars and pandas hold what Arrow does."""
    index, _ = index_of([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], strings=strings)
    hits = index.knn([[1.0, 2.0], [3.0, 4.0]], 2, columns=["kind", "lon", "lat"])
    table = hits.to_arrow()
    frame = hits.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_dicts() == table.to_pylist()
    assert hits.to_pandas().to_dict("records") == table.to_pylist()
    assert pa.types.is_large_string(table["id"].type) == strings


@pytest.mark.parametrize("way", ["to_pandas", "to_polars", "to_geopandas"])
def test_what_is_not_installed_is_said(monkeypatch, way):
    """With what to install."""
    import sys

    library = way.removeprefix("to_")
    monkeypatch.setitem(sys.modules, library, None)
    hits = index_of([[1.0, 2.0]])[0].knn([1.0, 2.0])
    with pytest.raises(dtoss.InputError, match=rf"{way} needs {library}: pip install 'dtoss\["):
        getattr(hits, way)()


def test_a_server_gives_positions_where_they_are_asked_for():
    """The same as in process; else its hits say how to ask."""
    index, _ = index_of([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    with answering(index) as server:
        remote = dtoss.connect(server.url)
        places = [[1.0, 2.0], [3.0, 4.0]]
        assert remote.knn(places, 2, columns=["lat", "lon", "kind"]) == index.knn(
            places, 2, columns=["lat", "lon", "kind"]
        )
        hits = remote.range(places[0], 1e6, columns=["lon", "lat"])
        assert hits.to_geopandas().equals(index.range(places[0], 1e6, columns=["lon", "lat"]).to_geopandas())
        for silent in (remote.knn(places, 2), remote.knn(places[0])):
            assert silent.crs == "EPSG:4326"
            with pytest.raises(ValueError, match=r"columns=\['lon', 'lat'\]"):
                _ = silent.positions
        with pytest.raises(ValueError, match="column 'x' is not carried"):
            remote.knn(places, 2, columns=["x"])
