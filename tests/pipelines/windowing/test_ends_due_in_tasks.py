"""Far too many ends due at once, found by a task and not by who has begun it: one line, as by any bad input."""

from __future__ import annotations

import os

from pipelines.windowing import window_batches

NOW = 1_700_000_000


def test_a_row_of_long_ago_is_one_line_also_where_tasks_make_results(session, command, monkeypatch, tmp_path):
    """It names both times, the bound and the way out, and says nothing of Spark; nothing is committed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(window_batches, "MOST_PATCHES", -1)  # results of any patches are made by tasks
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text(f"id,t,lon,lat\n1,0,8,50\n2,{NOW},8,50\n2,{NOW + 60},8,50\n3,{NOW},8,50\n")
    os.utime(tmp_path / "in" / "a.csv", (1, 1))
    (tmp_path / "shops.csv").write_text("id,lon,lat\n1,8,50\n")
    asked = ("--by", "sites:shops.csv", "--lengths", "1min", "--measures", "rows,here", "--witnesses", "1")
    asked += () if session is None else ("--engine", "spark")
    code, out, err = command("windows", "run", "in", "--store", "store", "--name", "w", *asked, "--once")
    assert (code, out) == (2, ""), err
    last = err.splitlines()[-1]
    assert last.startswith("error: 28,333,334 ends of windows would be due at once, from 1970-01-01T00:00:00Z to 2023-")
    assert last.endswith("at most 5,000,000 are; mend the times of the first rows, take a longer --slide, or leave here"
                         " out of --measures")  # fmt: skip
    assert "Traceback" not in err
    assert "Exception" not in err
    assert not list((tmp_path / "store").rglob("commits/*"))
