"""``dtoss history trajectory --line``: a line for each run of rows of an object without a long silence."""

from __future__ import annotations

import geopandas

import dtoss


def test_lines_begin_anew_after_a_silence_and_say_from_when_to_when(command, tmp_path):
    """A row by itself is a line from its place to the same place."""
    t, lon = [0, 5, 9, 40, 41, 3], [0.0, 1.0, 2.0, 3.0, 4.0, 9.0]
    rows = {"id": [7, 7, 7, 7, 7, 8], "t": t, "lon": lon, "lat": [0.0] * 6}
    dtoss.history.append(rows, str(tmp_path / "h"), batch="a")
    asked = ("history", "trajectory", "--history", tmp_path / "h", "--id", 7, "--id", 8)
    command.works(*asked, "--line", tmp_path / "lines.parquet", "--gap", "10s")
    found = geopandas.read_parquet(tmp_path / "lines.parquet")
    assert found[["id", "t_from", "t_to", "rows"]].to_numpy().tolist() == [[7, 0, 9, 3], [7, 40, 41, 2], [8, 3, 3, 1]]
    assert [list(line.coords) for line in found.geometry] == [
        [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)], [(3.0, 0.0), (4.0, 0.0)], [(9.0, 0.0), (9.0, 0.0)],
    ]  # fmt: skip
