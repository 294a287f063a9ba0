"""One read of what arrives for a history, windows and a store: each commits once, whoever is killed between two."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.commits.lease import held_by, take
from dtoss.errors import InputError, StoreError
from dtoss.rows.input_columns import UNMARKED, Columns
from dtoss.snapshots.store import Store
from dtoss.windows.storage.window_document import Home, documents
from pipelines.loop.disposal import Disposal
from pipelines.rows.read_files import positions_in
from pipelines.ticks import three_commits
from pipelines.ticks.run import Ran
from pipelines.windowing.begin_windows import read_asked
from pipelines.windowing.feed_windows import Feed, feed
from tests.pipelines.history_tasks.test_appending import rows_in
from tests.pipelines.loops import looped
from tests.pipelines.rows.reading import rows_of
from tests.pipelines.windowing.counted_files import run_windows

BEGIN = 1_700_000_000
SITES = [[8.1, 50.1], [8.3, 50.1], [8.2, 50.0]]


@pytest.fixture
def place(session, tmp_path, monkeypatch):
    """A folder of updates, two files that ask for windows, and functions that write a file and make a beat."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops.csv").write_text("id,lon,lat\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(SITES)))
    text = 'name = "{}"\nlengths = ["20s", "1min"]\nslide = "10s"\nlate = "1min"\nby = "{}"\n'
    (tmp_path / "shops.toml").write_text(text.format("shops", "sites:shops.csv") + 'measures = "rows,objects,here"\n')
    (tmp_path / "fleet.toml").write_text(text.format("fleet", "partition") + "max-bad = '50%'\n")
    asked = [read_asked("shops.toml"), read_asked("fleet.toml")]

    def put(name, seed, count=40):
        rng = np.random.default_rng(seed)
        x, y = rng.uniform([[8.0], [50.0]], [[8.4], [50.2]], (2, count)).round(4)
        t = BEGIN + 60.0 * seed + rng.integers(0, 90, count)
        (tmp_path / "updates").mkdir(exist_ok=True)
        rows = {"id": rng.integers(0, 9, count), "t": t, "lon": x, "lat": y}
        pq.write_table(pa.table(rows), tmp_path / "updates" / f"{name}.parquet")
        return rows

    def beat(store, history=None, windows=asked, **options):
        wanted = {"every": 0.01, "cycles": 1, "columns": {"time": "t"}, "max_ahead": None, "first": {"partitions": 2}}
        told = []
        made = looped(
            "updates", str(tmp_path / store), lambda: session, windows=windows, history=history,
            say_windows=lambda name, ran: told.append((name, ran.counts["rows"])), **wanted | options,
        )  # fmt: skip
        return made, told

    return put, beat


def stands(store, history):
    """All that a run has made, by the digests of its files, and the rows of its history."""
    manifest = Store(store).manifest()
    files = [entry["sha256"] for entry in manifest["partitions"]]
    for name in ("shops", "fleet"):
        commits = list(documents(Home(store, name), 1, 2))
        files += [file.file.sha256 for one in commits for part in one.files.values() for file in part]
        files += [(one.watermark, dict(one.counts)) for one in commits]
    return files, manifest["counts"], rows_in(history)


def killed(*_, **__):
    raise KeyboardInterrupt


def test_whoever_is_killed_between_two_goes_on_and_all_is_as_if_nobody_was(place, session, tmp_path, monkeypatch):
    """History, windows of sites, windows of partitions, snapshot; one read for all; no kill changes a byte."""
    put, beat = place
    reads = []
    plain = three_commits.read_positions
    monkeypatch.setattr(
        three_commits, "read_positions", lambda *a, **more: reads.append(a[1].files) or plain(*a, **more)
    )
    put("a", 0)
    # partitions of the first snapshot are keys as soon as it is there
    assert beat("one", "h1") == (Ran(cycles=1), [("shops", 40), ("fleet", 40)])
    assert beat("two", "h2") == (Ran(cycles=1), [("shops", 40), ("fleet", 40)])
    put("b", 1)
    assert beat("one", "h1") == (Ran(cycles=1), [("shops", 40), ("fleet", 40)])
    assert len(reads) == 3
    feed = three_commits.feed
    for function, fault, versions in (
        ("feed", killed, [2, 1, 1]),  # after the history
        ("feed", lambda one, *more: feed(one, *more) if one.asked.name == "shops" else killed(), [2, 2, 1]),
        ("merge", killed, [2, 2, 2]),  # after both windows
    ):
        with monkeypatch.context() as patch:
            patch.setattr(three_commits, function, fault)
            with pytest.raises(KeyboardInterrupt):
                beat("two", "h2")
        heads = [Home("two", name).batches.head().number for name in ("shops", "fleet")]
        assert [dtoss.history.open("h2").version.number, *heads] == versions
        assert held_by(Home("two", "shops").folder) is None
    assert beat("two", "h2") == (Ran(cycles=1), [])
    assert beat("two", "h2") == (Ran(skipped=1), [])
    assert stands("two", "h2") == stands("one", "h1")
    # files alone give the same windows
    wanted = {"lengths": "20s,1min", "slide": "10s", "late": "1min", "by": "sites:shops.csv"}
    wanted["measures"] = "rows,objects,here"
    run_windows("updates/a.parquet", "alone", "w", lambda: session, wanted, once=True)
    run_windows("updates", "alone", "w", lambda: session, wanted, once=True)
    same, found = dtoss.open_windows("alone", "w"), dtoss.open_windows("two", "shops")
    assert same.watermark == found.watermark
    ends = range(BEGIN // 10 * 10 + 10, found.watermark // 10**6 + 1, 10)
    for end in ends:
        for window in ("20s", "1min"):
            assert same.at(end, window).equals(found.at(end, window))
    assert len(list(ends)) > 5


def test_windows_that_begin_later_count_the_files_that_are_still_there(place, tmp_path):
    """They catch up in one batch; a file goes when windows have read it, too; a rollback gives them nothing twice."""
    put, beat = place
    put("a", 0)
    assert beat("s", windows=())[0] == Ran(cycles=1)
    put("b", 1)
    assert beat("s", windows=())[0] == Ran(cycles=1)
    shops = [read_asked("shops.toml")]
    # both files are read by the store already: windows have a batch, the store has no cycle
    assert beat("s", windows=shops, disposal=Disposal(None), keep=1) == (Ran(skipped=1), [("shops", 80)])
    assert [path.name for path in (tmp_path / "updates").iterdir()] == ["b.parquet"]
    Store("s").rollback(lambda text: None)
    assert beat("s", windows=shops) == (Ran(cycles=1), [])
    assert Home("s", "shops").batches.head().number == 1


def test_what_one_of_them_refuses_counts_in_none_behind_it(place, tmp_path):
    """Rows that are too late for windows are kept in the history before; the store waits until they are borne."""
    put, beat = place
    put("a", 60)
    shops = [read_asked("shops.toml")]
    beat("s", "h", windows=shops)
    put("b", 0, 10)
    with pytest.raises(
        InputError, match=r"^windows shops: 10 of 10 rows are bad \(10 later than --late\), more than --max-bad 10% "
    ):
        beat("s", "h", windows=shops)
    assert len(rows_in("h")) == 50
    assert Store("s").manifest()["counts"]["read"] == 40
    (tmp_path / "shops.toml").write_text('name = "shops"\nmax-bad = 1.0\n')
    assert beat("s", "h", windows=[read_asked("shops.toml")]) == (Ran(cycles=1), [("shops", 10)])
    assert (len(rows_in("h")), Store("s").manifest()["counts"]["read"]) == (50, 10)


def test_what_cannot_be_is_said_before_spark_starts(place, tmp_path):
    """Who runs the windows, pivots that would change, two of one name, windows that are not there."""
    put, beat = place
    put("a", 0)
    shops = read_asked("shops.toml")
    (tmp_path / "none.toml").write_text('name = "none"\n')
    with pytest.raises(InputError, match=r"--windows shops.toml names 'shops', as another file does"):
        beat("s", windows=[shops, shops])
    with pytest.raises(InputError, match=r"none.toml: there are no windows 'none' in .*: say which are wanted"):
        beat("s", windows=[read_asked("none.toml")])
    with pytest.raises(ValueError, match="pivots is 'auto': with windows by partition they are only kept"):
        beat("s", windows=[read_asked("fleet.toml")], pivots="auto")
    Home("s", "shops").folder.make()
    lease = take(Home("s", "shops").folder, "windows shops", pytest.fail, lambda: None)
    with lease, pytest.raises(StoreError, match=r"windows shops of .* is being written by process"):
        beat("s", windows=[shops])
    assert not (tmp_path / "s" / "commits").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('lengths = "1h"', 'does not name its windows: name = "fleet", in quotes, is wanted'),
        ('name = "a/b"', "a/b"),
        ('name = "w"\nlenghts = "1h"', "there is no key 'lenghts'; the keys are name, lengths, slide"),
        ('name = "w"\nlenghts = "1h"', "; did you mean lengths?"),
        ('name = "w"\nslide = "1min"', "--slide is given without --lengths"),
        ('name = "w"\nlengths = "5 m"', "--lengths is '5 m'"),
        ('name = "w"\nlengths = 5', "lengths is 5: a text in quotes is wanted, as --lengths takes it, or a list of"),
        ('name = "w"\nlengths = "1h"\nmax-speed = "9"', "max-speed is '9': a number of metres a second is wanted"),
        ('name = "w"\nmax-bad = 2', "max-bad is '2': a share such as 50% or 0.5 is wanted"),
        ("name = w", "cannot be read as TOML"),
        (None, "cannot be read as TOML: No such file or directory"),
    ],
)
def test_a_file_that_asks_for_no_windows_is_refused_in_one_line(tmp_path, text, said):
    """With the file, the value and the way out."""
    file = tmp_path / "w.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError) as error:
        read_asked(str(file))
    assert str(error.value).startswith(str(file))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_keys_of_a_file_are_the_options_of_the_command(tmp_path):
    """Lists stand for texts with commas; what is left out is as the command has it."""
    file = tmp_path / "w.toml"
    file.write_text(
        'name = "w"\nlengths = ["5min", "1h"]\nmeasures = ["rows", "speed"]\nwitnesses = 3\nmax-gap = "2min"\n'
        'max-speed = 70\nmax-bad = "20%"\n'
    )
    asked = read_asked(str(file))
    assert (asked.name, asked.max_bad) == ("w", 0.2)
    assert json.loads(json.dumps(asked.wanted)) == {
        "lengths": "5min,1h", "measures": "rows,speed", "witnesses": "3", "max_gap": "2min", "max_speed": 70.0,
        "slide": "1min", "by": "partition",
    }  # fmt: skip


def test_rows_that_delete_an_object_are_no_rows_of_windows(engine, session):
    """They say nothing of a place; who does not delete counts, and so does what is set aside, under its reason."""
    told = [(1, 10.0, 8.1, 50.0, "no"), (2, 11.0, 8.2, 50.0, "yes"), (3, 12.0, 8.3, 50.0, None)]
    told += [(4, 13.0, None, None, "yes"), (5, 14.0, None, 50.0, "no"), (6, 15.0, 8.6, 50.0, "perhaps")]
    names = ("id", "t", "lon", "lat", "gone")
    frame = engine.createDataFrame(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in told]))
    counted = []
    running = SimpleNamespace(batch=lambda session, positions, *_: counted.append(positions))
    one = Feed(None, None, "sites", None, None, running)
    both = [positions_in(frame, columns) for columns in (Columns(deleted="gone"), Columns())]
    for positions in both:
        feed(one, session, positions, None, lambda: None)
    good, bad = rows_of(counted[0])
    assert good["id"].to_pylist() == [1, 3]
    assert [(row["id"], reason) for reason, row in bad] == [(5, "no position"), (6, UNMARKED)]
    assert counted[1] is both[1]  # where none deletes, all are
