"""Whole numbers, booleans and text come out of an index as they came in, nulls beside them or not."""

from __future__ import annotations

import geopandas
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import dtoss
from dtoss.result_frames import pandas_frame

WIDE = 2**60 + 1
HELD = {"ref": [WIDE, None, -WIDE], "yes": [True, None, False], "name": ["a", None, "b"], "real": [0.5, None, 1.5]}
PLAIN = {"whole": [WIDE, 2, 3], "sure": [True, False, True], "text": ["a", "b", "c"]}
KINDS = {
    "ref": "Int64", "yes": "boolean", "name": "string", "real": "float64",
    "whole": "int64", "sure": "bool", "text": str(pd.Series(["a"]).dtype),  # object, or str from pandas 3 on
}  # fmt: skip
LEFT = geopandas.GeoDataFrame({"n": [0, 1]}, geometry=geopandas.points_from_xy([0.0, 9.0], [0.0, 9.0]), crs=4326)


def in_pandas():
    nullable = {name: pd.array(values, dtype=KINDS[name]) for name, values in HELD.items()}
    return pd.DataFrame({"id": [1, 2, 3], "lon": [0.0, 1.0, 2.0], "lat": [0.0, 1.0, 2.0], **nullable, **PLAIN})


def in_arrow():
    return pa.table({"id": [1, 2, 3], "lon": [0.0, 1.0, 2.0], "lat": [0.0, 1.0, 2.0], **HELD, **PLAIN})


def in_geopandas():
    rows = in_pandas()
    points = geopandas.points_from_xy(rows.lon, rows.lat)
    return geopandas.GeoDataFrame(rows.drop(columns=["lon", "lat"]), geometry=points, crs=4326)


WAYS_IN = [in_pandas, in_arrow, in_geopandas, lambda: polars.from_arrow(in_arrow()), lambda: in_arrow().to_pydict()]
WAYS_OUT = {
    "to_pandas": lambda index: index.range([1.0, 1.0], 1e6, columns=list(KINDS)).to_pandas(),
    "to_geopandas": lambda index: index.range([1.0, 1.0], 1e6, columns=list(KINDS)).to_geopandas(),
    "objects": lambda index: index.objects(),
    "sjoin_nearest": lambda index: dtoss.sjoin_nearest(LEFT, index, k=3, max_distance=5e5).assign(id=[1, 2, 3]),
}


@pytest.mark.parametrize("out", WAYS_OUT)
@pytest.mark.parametrize("given", WAYS_IN)
def test_digits_come_out_as_they_came_in(given, out):
    """In each frame of pandas that an index gives, and in an index that is built of that."""
    frame = WAYS_OUT[out](dtoss.build(given(), partitions=2)).set_index("id").sort_index()
    if out == "sjoin_nearest":
        frame = frame.drop(columns=["n", "index_right"])
    assert frame[list(KINDS)].dtypes.astype(str).to_dict() == KINDS
    for name, values in (HELD | PLAIN).items():
        assert [None if pd.isna(one) else one for one in frame[name]] == values
    if "geometry" in frame and out != "sjoin_nearest":
        again = dtoss.build(frame.reset_index()[["id", *KINDS, "geometry"]]).objects().set_index("id").sort_index()
        pd.testing.assert_frame_equal(again[list(KINDS)], frame[list(KINDS)])


@pytest.mark.parametrize("far", [1e5, 1e7])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_with_an_index_has_the_types_of_one_with_a_frame(how, far):
    """Whichever rows are found, nulls among them or not, and rows without a pair beside them."""
    right = in_geopandas().set_index("id").rename_axis(None)
    at_null = LEFT.set_geometry(geopandas.points_from_xy([1.0, 9.0], [1.0, 9.0]), crs=4326)
    for left in (LEFT, at_null):
        found = dtoss.sjoin_nearest(left, dtoss.build(right), how=how, max_distance=far)
        pd.testing.assert_frame_equal(found, dtoss.sjoin_nearest(left, right, how=how, max_distance=far))


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_rows_without_a_pair_cost_no_digits(kind):
    """Pandas makes float64 of whole numbers beside nulls, which does for small ones: ids and attributes keep theirs."""
    held = {"wide": np.array([WIDE, 1], kind), "most": np.array([2**53, 0], kind)}
    right = geopandas.GeoDataFrame(held, geometry=geopandas.points_from_xy([0.0, 1.0], [0.0, 1.0]), crs=4326)
    right = right.set_index(pd.Index([WIDE, 5]))
    for searched in (right, dtoss.build(right)):
        found = dtoss.sjoin_nearest(LEFT, searched, how="left", max_distance=1e5)
        wide = {np.int64: "Int64", np.uint64: "UInt64"}[kind]
        kinds = {"n": "int64", "geometry": "geometry", "index_right": "Int64", "wide": wide, "most": "float64"}
        assert found.dtypes.astype(str).to_dict() == kinds
        held = found[["index_right", "wide", "most"]]
        assert [held[name].iloc[0] for name in held] == [WIDE, WIDE, 2**53]
        assert held.iloc[1].isna().all()


def test_each_kind_with_nulls_has_a_nullable_type():
    """Whole numbers of any width, at their bounds, also in pieces and where no row is null; none is lost in a list."""
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    bounds = {str(kind): [int(np.iinfo(str(kind)).min), None, int(np.iinfo(str(kind)).max)] for kind in kinds}
    held = {str(kind): pa.chunked_array([bounds[str(kind)][:1], bounds[str(kind)][1:]], kind) for kind in kinds}
    texts = {str(kind): pa.array(["a", None, "ü"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())}
    table = pa.table({"lists": [[WIDE, None], None, [WIDE]], "whole": [1, 2, 3], **held, **texts})
    frame = pandas_frame(table, ["whole", "not there"])
    assert frame.columns.tolist() == table.column_names
    assert frame.dtypes.astype(str).to_dict() == {
        "lists": "object", "whole": "Int64", **dict.fromkeys(texts, "string"),
        **{name: name.replace("i", "I").replace("u", "U") for name in held},
    }  # fmt: skip
    assert pa.Table.from_pandas(frame.drop(columns=["lists", *texts])).equals(
        table.drop_columns(["lists", *texts]).combine_chunks(), check_metadata=False
    )
    assert [None if one is None else list(one) for one in frame["lists"]] == table["lists"].to_pylist()
    assert len(pandas_frame(table.slice(0, 0), ["whole"])) == 0
    assert pandas_frame(table.select(["int8"])).shape == (3, 1)
