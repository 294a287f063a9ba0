"""What is loaded when: no library before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dtoss.snapshots.store import Store

WATCHED = {
    "numpy", "pyarrow", "scipy", "scipy.spatial", "numba", "llvmlite", "pandas", "geopandas", "shapely", "polars",
    "pyogrio", "pyproj", "matplotlib", "rich", "typer", "sqlglot", "pyspark", "duckdb", "folium", "lonboard",
}  # fmt: skip
BASIC = {"numpy", "pyarrow"}
KERNELS = BASIC | {"numba", "llvmlite", "scipy"}
MADE = """
import numpy as np, dtoss
places = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
index = dtoss.build(np.arange(3), places, columns={'a': np.arange(3)})
"""
POLARS = "import polars, dtoss; dtoss.build(polars.DataFrame({'lon': [0.0], 'lat': [0.0], 'id': [1]}))"
LOADED = {
    "import dtoss": set(),
    "import dtoss; dtoss.InputError": set(),
    "from dtoss import Hits": BASIC,
    "from dtoss import Index, Hits, build, open": BASIC,
    "import dtoss; str(dtoss.Index.knn.__doc__), str(dtoss.build.__doc__)": BASIC,
    "index.knn([0.0, 0.0], k=2, columns=['lon']).positions": KERNELS,
    "index.range([[0.0, 0.0]], 10.0).to_arrow()": KERNELS,
    "index.within([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])": KERNELS,
    "index.knn([0.0, 0.0], where='a = 2')": KERNELS | {"sqlglot", "pandas"},
    "index.knn([0.0, 0.0]).to_pandas()": KERNELS | {"pandas"},
    "index.knn([0.0, 0.0]).to_geopandas()": KERNELS | {"pandas", "geopandas", "shapely", "pyproj"},
    "index.cell(1), index.neighbours(1), index.reverse_nearest([0.5, 0.5])": KERNELS,
    "index.knn([0.0, 0.0]).to_polars()": KERNELS | {"polars", "pandas"},
    POLARS: KERNELS | {"polars", "pandas"},
}
"""What may be loaded of these libraries when something was done, and nothing else of them.

Arrow loads pandas, where it is there, before it makes an array of Python's values, as of the numbers in a condition.
"""


FORKS = """
import json, os, sys
watched, made, codes = json.load(sys.stdin)
def forked(work):
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
def run(code, known):
    exec(code, known)
    print(json.dumps([code, sorted(set(watched) & sys.modules.keys())]))
def from_an_index():
    known = {}
    exec(made, known)
    for code in codes:
        if code.startswith("index."):
            forked(lambda: run(code, known))
for code in codes:
    if not code.startswith("index."):
        forked(lambda: run(code, {}))
forked(from_an_index)
"""


def loaded(*codes):
    """The watched libraries that a process has loaded once it has run some code, by the code.

    Each is run by a process that is forked from one that has nothing loaded; what begins with ``index`` from one that
    has built it.
    """
    given = json.dumps([sorted(WATCHED), MADE, codes])
    done = subprocess.run([sys.executable, "-c", FORKS], input=given, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return {code: set(names) for code, names in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def found():
    return loaded(*LOADED)


@pytest.mark.parametrize("code", LOADED)
def test_no_library_is_loaded_before_it_is_used(code, found):
    """The watched ones, each by the step that needs it."""
    assert found[code] <= LOADED[code]
    used = {"to_pandas": "pandas", "to_polars": "polars", "to_geopandas": "geopandas", "where": "sqlglot"}
    for word, library in used.items():
        assert (f"{word}" in code) <= (library in found[code]), "the test no longer sees what it looks for"


def test_a_missing_store_is_told_before_kernels_are_loaded(tmp_path):
    """An error in a path costs no second."""
    code = f"import dtoss\ntry:\n    dtoss.open({str(tmp_path / 'none')!r})\nexcept dtoss.StoreError:\n    pass"
    assert loaded(code)[code] <= BASIC
    assert not Store(str(tmp_path / "none")).snapshots()
