"""Coordinates of tables go by their names."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dtoss
from dtoss.geometry.space import by_name

LONLAT = np.array([[-74.0, 40.7], [-73.9, 40.8]])
LAT_FIRST = {"lat": LONLAT[:, 1], "lon": LONLAT[:, 0]}


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame(LAT_FIRST),
        pd.DataFrame(LAT_FIRST | {"speed": [1, 2], "name": ["a", "b"]}),
        pd.DataFrame({"Latitude": LONLAT[:, 1], "LONGITUDE": LONLAT[:, 0]}),
        pd.DataFrame({"y": LONLAT[:, 1], "x": LONLAT[:, 0]}),
        pd.DataFrame({"x": [5.0, 6.0], "y": [7.0, 8.0]} | LAT_FIRST),
        pd.DataFrame(LONLAT, columns=["a", "b"]),  # names that say nothing: as it stands
        pd.DataFrame(LONLAT),
        pa.table(LAT_FIRST),
        pa.RecordBatch.from_pydict(LAT_FIRST),
        LAT_FIRST,
        np.array([(40.7, -74.0), (40.8, -73.9)], dtype=[("lat", float), ("lon", float)]),
        LONLAT,
        LONLAT.tolist(),
    ],
)
def test_the_order_of_columns_does_not_matter(table):
    """For building and for asking."""
    index = dtoss.build([1, 2], table)
    assert [(index[i]["lon"], index[i]["lat"]) for i in (1, 2)] == [tuple(row) for row in LONLAT.tolist()]
    assert index.knn(table).distance.tolist() == [0.0, 0.0]
    assert index.locate(table).tolist() == [1, 2]


def test_one_row_of_a_table():
    """A place by itself has names too."""
    index = dtoss.build([1, 2], LONLAT)
    for place in (pd.DataFrame(LAT_FIRST).iloc[0], {"lat": 40.7, "lon": -74.0}):
        assert list(index.knn(place)) == [(0, 1, 0.0)]


def test_half_a_position_is_named():
    """A table that has one coordinate only is no list of positions."""
    with pytest.raises(ValueError, match=r"column 'lat' and not the other coordinate.*the columns are lat, b"):
        by_name(pd.DataFrame({"lat": [1.0], "b": [2.0]}))
    with pytest.raises(ValueError, match="positions are not numbers"):
        dtoss.build([1], pd.DataFrame({"lat": ["north"], "lon": ["west"]}))
