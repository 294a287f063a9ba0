"""Options of object stores reach pyarrow and obstore alike; without obstore a store can be read, and no more."""

from __future__ import annotations

import builtins
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from dtoss.commits.folder import LocalFolder, RemoteFolder
from dtoss.commits.lease import LEASE, Holder
from dtoss.errors import StoreError
from dtoss.snapshots.store import Store
from dtoss.snapshots.store_location import S3Place, filesystem_of, folder_of
from tests.disks import elsewhere
from tests.dtoss.snapshots.small_stores import commit
from tests.object_store import object_store

NAMES = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "DEFAULT_REGION", "ENDPOINT_URL")


@pytest.fixture
def bare(monkeypatch):
    """No options in the environment."""
    for name in (*NAMES, "ENDPOINT_URL_S3"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    return monkeypatch


@pytest.fixture(scope="module")
def bucket():
    with object_store() as place:
        yield place


def test_options_of_the_uri_count_before_the_environment(bare):
    """Endpoint with and without its scheme, region, keys; both libraries get what is found."""
    assert S3Place.of("s3://Bucket-1/a/b/") == S3Place("bucket-1", "a/b")
    bare.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000/")
    bare.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    bare.setenv("AWS_ACCESS_KEY_ID", "key")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    bare.setenv("AWS_SESSION_TOKEN", "token")
    there = S3Place.of("s3://bucket/a")
    assert there == S3Place("bucket", "a", "127.0.0.1:9000", "http", "eu-west-3", "key", "secret", "token")
    assert filesystem_of("s3://bucket/a")[1] == "bucket/a"
    assert filesystem_of("s3://bucket/a")[0].region == "eu-west-3"
    config = there.objects().config
    assert (config["endpoint"], config["region"]) == ("http://127.0.0.1:9000", "eu-west-3")
    assert (config["access_key_id"], config["session_token"]) == ("key", "token")
    assert there.objects().prefix == "a"
    uri = "s3://k%2F1:s%2B2@bucket/a?endpoint_override=other:1&scheme=https&region=r&anonymous=true"
    assert S3Place.of(uri) == S3Place("bucket", "a", "other:1", "https", "r", "k/1", "s+2", None, {"anonymous"})
    bare.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")
    assert S3Place.of("s3://bucket").endpoint == "s3.example"
    assert S3Place.of("s3://bucket").scheme == "https"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        (
            "s3://k:s@bucket/a?endpoint=x",
            r"^s3://bucket/a\?endpoint=x has the option endpoint: known are allow_bucket_",
        ),
        ("s3://k:s@bucket/a?anonymous=yes", r"says anonymous=yes: true or false is wanted"),
        ("s3:///a", "names no bucket"),
        ("nowhere://a/b", "is not on a file system that can be reached"),
    ],
)
def test_what_cannot_be_reached_is_said(bare, uri, why):
    """Without the keys."""
    with pytest.raises(StoreError, match=why) as error:
        folder_of(uri)
    assert "k:s" not in str(error.value)


def test_no_message_of_a_store_holds_its_keys(bucket):
    """Whatever is wrong with it: keys of a URI are for the libraries alone."""
    store = Store(bucket.uri(keys=True))
    assert "testing:testing@" in store.path
    with pytest.raises(StoreError) as nothing:
        store.current()
    commit(store, 1)
    after = store.head()
    commit(store, 2)
    with pytest.raises(StoreError) as late:
        store.chain.append({"snapshot": store.current()}, after)
    with store.writer(), pytest.raises(StoreError) as refused:
        store.writer()
    with pytest.raises(StoreError) as unknown:
        store.manifest("none")
    for error in (nothing, late, refused, unknown):
        assert "dtoss/" in str(error.value)
        assert "testing" not in str(error.value)


def test_local_paths_need_no_library(tmp_path):
    """Neither as a path nor as a URI of files."""
    assert folder_of(str(tmp_path)) == LocalFolder(str(tmp_path)) == folder_of(f"file://{tmp_path}")
    code = f"import sys, dtoss.snapshots.store_location as p; p.folder_of({str(tmp_path)!r})"
    code += "; print({'pyarrow', 'obstore'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


class Counting(BaseHTTPRequestHandler):
    """An object store that takes whatever comes, and notes what that is."""

    def do_PUT(self):
        if "Content-Length" in self.headers:
            self.rfile.read(int(self.headers["Content-Length"]))
        else:  # in chunks, each below its length; the last has none
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            while self.rfile.readline().strip():
                pass
        self.server.seen.append((self.command, self.path))
        said = b"<DeleteResult><Deleted><Key>a/b/c</Key></Deleted></DeleteResult>" if self.command == "POST" else b""
        self.send_response(200)
        for name, value in (("ETag", '"1"'), ("Content-Length", str(len(said)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said)

    do_POST = do_PUT

    def log_message(self, *_):
        pass


def test_small_files_and_removals_are_a_request_each_and_folders_none(bare):
    """Each takes a tenth of a second elsewhere."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        bare.setenv(f"AWS_{name}", "testing")
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        server.seen = []
        Thread(target=server.serve_forever).start()
        folder = folder_of(f"s3://bucket/a?endpoint_override=127.0.0.1:{server.server_port}&scheme=http")
        folder.make("b", "c")
        assert server.seen == []
        folder.write(b"data", "b", "c")
        assert server.seen == [("PUT", "/bucket/a/b/c")]
        folder.remove("b", "c")
        server.shutdown()
    assert [command for command, _ in server.seen] == ["PUT", "POST"]


def test_the_life_of_a_store_on_an_object_store(bucket):
    """Commits, rolling back, clearing, another process of the same machine; nothing is left behind."""
    store = Store(bucket.uri())
    with pytest.raises(StoreError, match="is not a store, or holds no snapshot yet"):
        store.current()
    first, second, third = (commit(store, number, keep=None) for number in (1, 2, 3))
    assert store.snapshots() == [first, second, third]
    assert store.rollback() == (second, third)
    assert [commit.document["kind"] for commit in store.chain.newest_first()] == ["rollback", *["rebuild"] * 3]
    assert store.clear(1, keep_for=600.0) == []
    assert store.clear(1) == [first, third]
    with store.writer():
        with pytest.raises(StoreError, match=rf"is being written by process {Holder.me().pid} on "):
            commit(store, 4)
        assert store.folder.files() == ["CURRENT", LEASE]
    folder = store.folder
    assert folder.files() == ["CURRENT"]
    assert folder.folders("snapshots") == [second]
    assert commit(Store(store.path), 5, keep=1) == store.current()


def test_a_lease_on_an_object_store_is_replaced_only_as_it_was_read(bucket):
    """Of two that find it expired one gets it; a lease that was renewed meanwhile is not taken."""
    folder = folder_of(bucket.uri())
    assert folder.exclusive
    assert folder.swaps
    assert folder.create(b"1", "a", LEASE)
    assert not folder.create(b"2", "a", LEASE)
    data, tag = folder.read_tagged("a", LEASE)
    assert data == b"1"
    assert folder.swap(b"3", tag, "a", LEASE)
    assert not folder.swap(b"4", tag, "a", LEASE)
    assert folder.read("a", LEASE) == b"3"
    assert folder.read_tagged("a", "none") is None
    folder.remove("a", LEASE)
    assert not folder.swap(b"5", tag, "a", LEASE)


def test_a_lease_of_a_dead_process_is_taken_over_on_an_object_store(bucket):
    """At once where it ran on this machine; and renewing moves its end on."""
    store = Store(bucket.uri())
    commit(store, 1)
    store.folder.write(Holder(Holder.me().host, 2**22 + 5, start="1").data, LEASE)
    with store.writer() as lock:
        lock.check()
        before = Holder.read(store.folder.read(LEASE))
        lock.renew()
        after = Holder.read(store.folder.read(LEASE))
        assert (after.token, after.until > before.until) == (before.token, True)
        store.folder.write(Holder("elsewhere", 1, token="theirs").data, LEASE)
        lock.renew()
        with pytest.raises(StoreError, match="was taken over by process 1 on elsewhere"):
            lock.check()
    assert Holder.read(store.folder.read(LEASE)).token == "theirs"


def test_without_obstore_a_store_is_read_only(bucket, monkeypatch):
    """Who writes is told what to install."""
    store = Store(bucket.uri())
    name = commit(store, 1)
    real = builtins.__import__

    def missing(name, *rest):
        if name.partition(".")[0] == "obstore":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    again = Store(store.path)
    assert again.current() == name
    assert again.manifest()["number"] == 1
    for write in (again.writer, again.rollback, lambda: again.clear(1)):
        with pytest.raises(
            StoreError, match=r"can be read, but not written without obstore: pip install 'dtoss\[cloud\]'"
        ):
            write()


def test_commits_on_hdfs_are_said_to_be_untried(monkeypatch, tmp_path):
    """They are made by a rename onto a name that is free: one of two gets it."""
    from pyarrow import fs

    class Hadoop(RemoteFolder):
        _hdfs = True

        def move(self, source, target):
            if (tmp_path / "b" / "/".join(target)).exists():
                raise OSError("rename failed")
            super().move(source, target)

    place = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    folder = Hadoop(place, "b")
    folder.make()
    assert folder.exclusive
    assert folder.create(b"1", "x")
    assert not folder.create(b"2", "x")
    monkeypatch.setattr(Hadoop, "is_file", lambda self, *parts: (tmp_path / "looked").exists() or self.touched())
    monkeypatch.setattr(Hadoop, "touched", lambda self: (tmp_path / "looked").touch() or False, raising=False)
    assert not folder.create(b"2", "x"), "between the look and the rename another one was faster"
    assert folder.read("x") == b"1"
    assert folder.files() == ["x"]
    elsewhere(monkeypatch, folder)
    said = []
    Store("hdfs://a/b").writer(said.append, lease=False)
    assert said == ["commits of hdfs://a/b rest on renames of HDFS, which were not tried: let one write at a time"]
