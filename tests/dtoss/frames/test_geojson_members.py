"""Members of files of GeoJSON and JSON lines: which there are, the CRS that is stated, and where one is none."""

from __future__ import annotations

import json

import pytest

from dtoss.errors import InputError
from dtoss.frames.geojson_members import members_of

ONE = {"type": "Feature", "properties": {"n": 1}}
TWO = {"type": "Feature", "properties": {"n": 2}}
CRS = {"type": "name", "properties": {"name": "EPSG:3857"}}


def collection(*features, **more):
    return json.dumps({"type": "FeatureCollection", "features": features, **more}, indent=1)


@pytest.mark.parametrize(
    ("text", "numbers", "crs"),
    [
        (collection(ONE, TWO, crs=CRS), [1, 2], "EPSG:3857"),
        (collection(ONE, TWO, crs=None), [1, 2], None),
        ("\ufeff" + json.dumps([ONE, TWO]), [1, 2], None),
        (f"\n{json.dumps(ONE)}\n \n{json.dumps(TWO)}\n", [2, 4], None),
        (f"\x1e{json.dumps(ONE)}\n\x1e{json.dumps(TWO)}", [1, 2], None),
        (json.dumps(ONE | {"crs": CRS}, indent=1), [1], "EPSG:3857"),
    ],
)
def test_members_of_every_form(text, numbers, crs):
    """Of a collection, of a list, one a line, after separators, and the only one."""
    found = members_of(text.encode(), "a.geojson")
    assert found.crs == crs
    assert [(number, one["properties"]["n"]) for number, one in found.objects()] == list(
        zip(numbers, (1, 2), strict=False)
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" \n", "a.geojson is empty: "),
        ("{\n", "a.geojson: it is not JSON: .* at "),
        (collection(7), "a.geojson, feature 1: it is of type int"),
        (json.dumps(ONE) + "\n{", "a.geojson, line 2: it is not JSON: .* at column 2"),
        (json.dumps(ONE) + "\n[NaN]", "a.geojson, line 2: it is not JSON: NaN is no value of JSON"),
        ('{"type": "FeatureCollection"}', "a.geojson is a FeatureCollection without a list of features"),
        (collection(ONE, crs={"type": "link"}), 'a.geojson: its "crs" has no name: '),
    ],
)
def test_what_is_none_is_said_with_its_place(text, said):
    """In one line."""
    with pytest.raises(InputError, match=f"^{said}") as raised:
        list(members_of(text.encode(), "a.geojson").objects())
    assert "\n" not in str(raised.value)
