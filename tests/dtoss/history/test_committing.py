"""Files, segments and commits: what is read is what was written, nothing is lost, and who loses a race tries again."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.column_rows import join_rows
from dtoss.errors import StoreError
from dtoss.history.data_file import Reads, ranges_of, read_blocks, write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, RepeatedKeys, Stale, commit, keys_known
from dtoss.history.row_blocks import BLOCK_ROWS, BY_PLACE, described, sorted_rows, starts_of
from dtoss.history.segments import Segment, columns_in, read_segment
from dtoss.history.segments import table_of as table_of_columns
from dtoss.history.sums import sum_of
from dtoss.history.versions import Home
from tests.dtoss.history.worlds import PLANE, new_home, put_batch, schema_of, small_rows, table_of
from tests.examples import examples

SCHEMA = schema_of(kind=pa.large_string())
MANY = 3 * BLOCK_ROWS + 5


def made_rows(n=MANY, seed=0):
    """Rows of a few objects on a line of longitude, in the order of time."""
    random = np.random.default_rng(seed)
    positions = np.stack([random.uniform(-180, 180, n), random.uniform(-90, 90, n)], axis=1).round(4)
    kinds = [("a", None, "bb")[i % 3] for i in range(n)]
    rows = table_of(SCHEMA, random.integers(0, 9, n), np.arange(n) // 7, positions, kind=kinds)
    return sorted_rows(rows, "time")


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from([schema_of(), schema_of(PLANE, "string", "int64")]), st.data())
def test_boxes_of_blocks_hold_their_vectors_and_nothing_more(schema, data):
    """Compared with a loop; deletions without a position are in no box."""
    rows = data.draw(small_rows(schema))
    if not len(rows):
        return
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=3)) - {len(rows)})
    said = described(rows, np.array([0, *cuts]), schema.space)
    for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        part = rows.slice(begin, end - begin)
        there = [(row["x"], row["y"]) for row in part.to_pylist() if not row["deleted"]]
        vectors = schema.space.vectors(np.array(there).reshape(-1, 2))
        assert said["rows"][i] == end - begin
        assert said["marks"][i] == sum(part.column("deleted").to_pylist())
        assert int(said["sum"][i]) == sum_of(part)
        assert said["low"][i].tolist() == (vectors.min(axis=0).tolist() if there else [np.inf] * len(vectors[:1].T))
        assert said["high"][i].tolist() == (vectors.max(axis=0).tolist() if there else [-np.inf] * len(vectors[:1].T))


def test_blocks_are_even():
    """None is larger than allowed, none is small beside the others."""
    for rows in (1, BLOCK_ROWS, BLOCK_ROWS + 1, MANY):
        sizes = np.diff([*starts_of(rows), rows])
        assert sizes.max() <= BLOCK_ROWS
        assert sizes.max() - sizes.min() <= 1


def test_what_was_written_is_read_in_any_choice_of_blocks_and_columns(tmp_path):
    """Also by another reader; leaves begin blocks, and ranges are joined over small gaps only."""
    home, rows = new_home(tmp_path / "h"), made_rows()
    parts = [(rows.slice(0, 10), (0.0, 0.0, 1.0, 1.0)), (rows.slice(10), None)]
    file = write_file(home.folder, BY_PLACE, parts, SCHEMA)
    assert [(leaf.first, leaf.count) for leaf in file.leaves] == [(0, 1), (1, 3)]
    assert (file.rows, file.sum) == (MANY, sum_of(rows))
    assert file == replace(write_file(home.folder, BY_PLACE, parts, SCHEMA), blocks=file.blocks)  # the same bytes
    reads = Reads()
    assert read_blocks(home, file.name, file.blocks, SCHEMA, reads=reads).equals(rows)
    assert (reads.ranges, reads.blocks, reads.rows) == (1, 4, MANY)
    some = read_blocks(home, file.name, file.blocks.take(slice(1, 3)), SCHEMA, ["x", "kind"])
    begin, count = 10, int(file.blocks.rows[1:3].sum())
    assert some.equals(rows.select(["x", "kind"]).slice(begin, count))
    assert read_blocks(home, file.name, file.blocks.take(slice(0, 0)), SCHEMA).equals(SCHEMA.arrow.empty_table())
    held = pq.read_table(tmp_path / "h" / file.name)
    assert held.column("geometry").to_pylist()[5] == {"x": rows["x"][5].as_py(), "y": rows["y"][5].as_py()}
    geo = json.loads(held.schema.metadata[b"geo"])
    assert geo["columns"]["geometry"] == {"encoding": "point", "geometry_types": ["Point"]}
    assert len(ranges_of(file.blocks, gap=0)) == 1
    apart = [file.blocks.take(slice(0, 1)), file.blocks.take(slice(3, 4))]
    assert len(ranges_of(join_rows(apart), gap=0)) == 2
    assert len(ranges_of(join_rows(apart), gap=2**20)) == 1


def test_a_flipped_byte_of_a_file_or_segment_is_found_where_it_is_read(tmp_path):
    """The message names the file; one that gc took is another message."""
    home = new_home(tmp_path / "h")
    version = put_batch(home, made_rows(), SCHEMA, "a")
    name = version.files.name[0]
    path = tmp_path / "h" / name
    data = bytearray(path.read_bytes())
    blocks = version.blocks(0)
    data[int(blocks.offset[1]) + 2000] ^= 4
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=f"{path.name} is damaged"):
        read_blocks(home, name, blocks, SCHEMA)
    path.unlink()
    with pytest.raises(StoreError, match=r"is gone: .* open the history again"):
        read_blocks(home, name, blocks, SCHEMA)
    segment = version.block_segments[0]
    place = tmp_path / "h" / "segments" / segment.file.name
    fresh = tmp_path / "other"
    (fresh / "segments").mkdir(parents=True)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    (fresh / "segments" / segment.file.name).write_bytes(bytes(data))
    with pytest.raises(StoreError, match=f"{segment.file.name} is damaged"):
        read_segment(Home(str(fresh)).folder, segment)


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(small_rows(schema_of(), most=12), min_size=1, max_size=6))
def test_versions_say_what_was_appended(batches):
    """Rows, sums, periods, ledger, and each version by its number."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        home = new_home(Path(folder) / "h")
        for i, rows in enumerate(batches):
            version = put_batch(home, rows, schema_of(), f"batch {i}")
        whole = pa.concat_tables(batches)
        assert (version.rows, version.sum) == (len(whole), sum_of(whole))
        assert version.periods.rows.tolist() == [len(rows) for rows in batches if len(rows)]
        assert version.ledger().column("key").to_pylist() == [f"batch {i}" for i in range(len(batches))]
        assert version.ledger().column("number").to_pylist() == list(range(1, len(batches) + 1))
        found = [
            read_blocks(home, version.files.name[file], version.blocks(leaf), version.schema)
            for leaf, file in enumerate(version.leaves.file.tolist())
        ]
        assert sum(map(sum_of, found)) % 2**64 == version.sum
        for number in range(1, len(batches) + 1):
            assert home.version(number).rows == sum(map(len, batches[:number]))
        assert len(version.block_segments) <= 1  # small ones are written anew


def test_who_loses_a_race_commits_upon_the_winner_unless_the_key_is_there(tmp_path):
    """Two that append after the same version both stand; the same batch stands once."""
    home, rows = new_home(tmp_path / "h"), made_rows(50)
    before = put_batch(home, rows.slice(0, 10), SCHEMA, "a")
    put_batch(home, rows.slice(10, 10), SCHEMA, "b", after=before)
    version = put_batch(home, rows.slice(20, 10), SCHEMA, "c", after=before)
    assert (version.number, version.rows, version.sum) == (3, 30, sum_of(rows.slice(0, 30)))
    with pytest.raises(RepeatedKeys) as raised:
        put_batch(home, rows.slice(10, 10), SCHEMA, "b", after=before)
    assert raised.value.keys == ("b",)
    assert keys_known(version, ["x", "c", "a"]) == ["c", "a"]
    first = put_batch(new_home(tmp_path / "two"), rows, SCHEMA, "a", after=None)
    second = put_batch(new_home(tmp_path / "two"), rows, SCHEMA, "b", after=None)  # both thought to be the first
    assert (first.number, second.number, second.rows) == (1, 2, 100)


def test_a_rewriting_needs_its_inputs_and_keeps_every_row(tmp_path):
    """A merge of periods that went is stale; one that loses or doubles a row is never committed."""
    home, rows = new_home(tmp_path / "h"), made_rows(40)
    put_batch(home, rows.slice(0, 20), SCHEMA, "a")
    version = put_batch(home, rows.slice(20), SCHEMA, "b")
    file = write_file(home.folder, 0, [(rows, None)], SCHEMA)
    merge = Change("settle", ((file, -1),), gone_periods=(0, 1), periods=(NewPeriod(1),))
    short = write_file(home.folder, 0, [(rows.slice(1), None)], SCHEMA)
    with pytest.raises(StoreError, match="nothing was committed: the time order would have 39 rows"):
        commit(home, replace(merge, files=((short, -1),)), version)
    place = write_file(home.folder, BY_PLACE, [(rows.slice(1), None)], SCHEMA)
    with pytest.raises(StoreError, match="the place order of period 2 would have other rows"):
        commit(home, replace(merge, files=((file, -1), (place, -1))), version)
    merged = commit(home, merge, version)
    assert merged.periods.number.tolist() == [2]
    assert merged.periods.tier.tolist() == [1]
    assert len(merged.files.name) == 1
    with pytest.raises(Stale, match="period 0 was rewritten"):
        commit(home, merge, version)
    gone = (merged.files.name[0], 0)
    halves = [write_file(home.folder, 0, [(rows.slice(i, 20), None)], SCHEMA) for i in (0, 20)]
    cut = Change("adapt", tuple((half, 2) for half in halves), gone=(gone,))
    assert commit(home, cut, merged).rows == 40
    with pytest.raises(Stale, match="were rewritten meanwhile"):
        commit(home, cut, merged)
    head = home.head()
    assert head is not None
    late = Change("settle", ((place, 0),))
    with pytest.raises(Stale, match="period 0"):
        commit(home, late, head)


def test_segments_stay_small_and_drop_what_is_dead(tmp_path):
    """After many appends and merges, the blocks in segments are hardly more than those that are live."""
    home, rows = new_home(tmp_path / "h"), made_rows(20)
    for i in range(10):
        version = put_batch(home, rows, SCHEMA, str(i))
    whole = sorted_rows(pa.concat_tables([rows] * 10), "time")
    file = write_file(home.folder, 0, [(whole, None)], SCHEMA)
    all_gone = tuple(version.periods.number.tolist())
    version = commit(home, Change("settle", ((file, -1),), gone_periods=all_gone, periods=(NewPeriod(1),)), version)
    assert sum(segment.file.rows for segment in version.block_segments) == len(version.blocks(0)) == 1


def test_folders_that_are_no_history(tmp_path):
    """Nothing there, a store, a newer format, a version that is not there: one line each."""
    with pytest.raises(StoreError, match="is no history: dtoss history append"):
        new_home(tmp_path / "nothing").version()
    assert new_home(tmp_path / "nothing").head() is None
    store = new_home(tmp_path / "store")
    store.folder.make("commits")
    store.chain.append({"snapshot": "x"}, None)
    with pytest.raises(StoreError, match="is no version of a history: is it a store"):
        store.version()
    home = new_home(tmp_path / "h")
    version = put_batch(home, made_rows(5), SCHEMA, "a")
    with pytest.raises(StoreError, match=r"version 7 of .* is not there: versions 1 to 1 are"):
        home.version(7)
    home.chain.append({**version.document, "format": 99}, version.commit)
    with pytest.raises(StoreError, match="has format 99, this dtoss reads 1: install a newer one"):
        home.version()


def test_entries_of_one_change_differ(tmp_path):
    """The same key twice in one commit would count a batch twice."""
    entry = Entry("a", "given", "", -1, 0, 0)
    with pytest.raises(RepeatedKeys):
        commit(new_home(tmp_path / "h"), Change("append", entries=(entry, entry), schema=SCHEMA), None)


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "../leaves.arrow"), ("name", 3), ("sha256", "0" * 63), ("rows", -1), ("rows", "1"), ("crc", None)],
)
def test_a_segment_is_named_as_all_files_of_commits_are(field, value):
    said = {"name": "leaves-0.arrow", "rows": 1, "crc": 5, "sha256": "0" * 64}
    assert Segment.of(said).as_json() == said
    with pytest.raises(StoreError, match=r"a segment of the history is named wrongly: .* is "):
        Segment.of(said | {field: value})
    with pytest.raises(StoreError, match="an object is wanted"):
        Segment.of("leaves-0.arrow")


def test_columns_of_a_segment_are_what_was_written(tmp_path):
    """Texts, numbers and boxes; of a table in one piece, or in several."""
    world = new_home(tmp_path / "h")
    for name in "ab":
        version = put_batch(world, made_rows(seed=ord(name)), SCHEMA, name)
    for held in (version.files, version.leaves, version.segment_blocks(0)):
        table = table_of_columns(held)
        for written in (table, pa.concat_tables([table[:1], table[1:]])):
            back = columns_in(type(held), written)
            for one in fields(held):
                assert np.array_equal(getattr(back, one.name), getattr(held, one.name)), one.name
