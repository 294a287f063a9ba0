"""Who is forgotten: keyed hashes that tell the same of every frame, and nothing of an id to who has no key."""

from __future__ import annotations

import hashlib
import hmac
import stat

import pyarrow as pa
import pytest

import dtoss
from dtoss.commits.chain import Chain
from dtoss.commits.verify_report import verify_chain
from dtoss.erasure.forgotten import allow_ids, forget_ids, forgotten_in
from dtoss.errors import StoreError
from dtoss.snapshots.store_location import folder_of
from tests.dtoss.erasure.decoding import found_in
from tests.object_store import object_store

IDS = ["anna-luise", "7", "zoë", "-12"]


def test_ids_are_remembered_as_keyed_hashes_and_no_byte_tells_one(tmp_path):
    assert forgotten_in(str(tmp_path)) is None
    assert forget_ids(str(tmp_path), IDS) == 4
    assert forget_ids(str(tmp_path), ["7", "bob"]) == 1
    found = forgotten_in(str(tmp_path))
    assert len(found) == 5
    assert found_in(tmp_path, ["anna-luise", "zoë"]) == []
    key = bytes.fromhex((tmp_path / "forgotten" / "KEY").read_text())
    assert set(found.tags) == {
        hmac.new(key, b"id:" + one.encode(), hashlib.sha256).hexdigest() for one in [*IDS, "bob"]
    }
    assert stat.S_IMODE((tmp_path / "forgotten" / "KEY").stat().st_mode) == 0o600
    quick = {f"{word & (1 << 64) - 1:016x}" for word in found.tags.values()}
    (file,) = (tmp_path / "forgotten" / "ids").iterdir()
    assert not quick & set(file.read_text().split()), "quick hashes are under a mask"
    assert list(verify_chain(Chain(folder_of(str(tmp_path / "forgotten"))))) == []


def test_the_same_ids_are_known_as_text_and_as_whole_numbers(tmp_path):
    forget_ids(str(tmp_path), IDS)
    found = forgotten_in(str(tmp_path))
    assert found.mask(pa.array(["anna", "anna-luise", "7", "07", "zoë", None])).tolist() == [0, 1, 1, 0, 1, 0]
    assert found.mask(pa.array([7, -12, 12, None, 2**62], pa.int64())).tolist() == [1, 1, 0, 0, 0]
    assert found.mask(pa.array([], pa.string())).tolist() == []


def test_ids_that_are_allowed_count_again_and_the_key_stays(tmp_path):
    forget_ids(str(tmp_path), IDS)
    key = (tmp_path / "forgotten" / "KEY").read_bytes()
    assert allow_ids(str(tmp_path), ["7", "bob"]) == 1
    assert forgotten_in(str(tmp_path)).mask(pa.array([7, -12])).tolist() == [0, 1]
    assert allow_ids(str(tmp_path), IDS) == 3
    assert forgotten_in(str(tmp_path)) is None
    assert (tmp_path / "forgotten" / "KEY").read_bytes() == key
    assert allow_ids(str(tmp_path / "other"), IDS) == 0
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("damage", ["no key", "another key", "no ids", "other ids", "no commit"])
def test_what_is_lost_is_an_error_and_lets_nobody_rise(tmp_path, damage):
    place = tmp_path / "forgotten"
    forget_ids(str(tmp_path), IDS)
    forget_ids(str(tmp_path), ["bob"])
    (ids,) = (place / "ids").iterdir()
    if damage == "no key":
        (place / "KEY").unlink()
    elif damage == "another key":
        (place / "KEY").write_text("ab" * 32)
    elif damage == "no ids":
        ids.unlink()
    elif damage == "other ids":
        ids.write_bytes(ids.read_bytes()[:-1])
    else:
        (place / "commits" / f"{2:020}.json").unlink()
    with pytest.raises(StoreError, match="forgotten"):
        forgotten_in(str(tmp_path))
    with pytest.raises(StoreError, match="forgotten"):
        dtoss.history.append({"id": [7], "t": [1.0], "lon": [1.0], "lat": [2.0]}, str(tmp_path), batch="1", id="id")


def test_rows_of_the_past_are_dropped_and_counted(tmp_path):
    path = str(tmp_path)
    frame = {"id": [7, 8, 7], "t": [1.0, 2.0, 3.0], "lon": [1.0] * 3, "lat": [2.0] * 3}
    assert dtoss.history.append(frame, path, batch="1", id="id").forgotten == 0
    forget_ids(path, ["7"])
    done = dtoss.history.append(frame, path, batch="2", id="id")
    assert (done.rows, done.forgotten) == (1, 2)
    only = dtoss.history.append({name: column[:1] for name, column in frame.items()}, path, batch="3", id="id")
    assert (only.rows, only.forgotten) == (0, 1)
    assert dtoss.history.append(frame, path, batch="3", id="id").repeated == 1, "the batch counts as read"


def test_those_of_an_object_store_are_known_there():
    with object_store() as place:
        uri = place.uri()
        assert forget_ids(uri, IDS) == 4
        assert forgotten_in(uri).mask(pa.array(["zoë", "b"])).tolist() == [True, False]
