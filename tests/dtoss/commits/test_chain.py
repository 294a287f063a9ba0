"""The chain of commits: one writer a number, found without listing, and no byte that may change."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.chain import COMMITS, HINT, Chain, Commit, Conflict, decode, encode, file_of, log_of
from dtoss.commits.folder import LocalFolder
from dtoss.commits.log_compaction import fold
from dtoss.commits.verify_report import verify_chain
from dtoss.errors import StoreError
from tests.examples import examples

LATER = datetime.now(UTC) + timedelta(days=2)


@pytest.fixture
def chain(tmp_path):
    return Chain(LocalFolder(str(tmp_path / "place")), block=5)


def grown(chain, count):
    """Append so many documents and return the head."""
    chain.folder.make()
    head = chain.head()
    for _ in range(count):
        head = chain.append({"n": (0 if head is None else head.number) + 1}, head)
    return head


class Counted(LocalFolder):
    """Tells what is read of a folder."""

    asked: list[str] = []  # noqa: RUF012

    def read(self, *parts):
        self.asked.append("/".join(parts))
        return super().read(*parts)

    def is_file(self, *parts):
        self.asked.append("/".join(parts))
        return super().is_file(*parts)

    def files(self, *parts):
        self.asked.append("list")
        return super().files(*parts)


class Endless:
    """A folder with a million commits, of which none is stored: each is made when it is asked for."""

    def __init__(self, count, hint):
        self.count, self.hint, self.asked = count, hint, 0

    def path(self, *parts):
        return "/".join(parts)

    def read(self, *parts):
        self.asked += 1
        if parts == (HINT,):
            return f"{self.hint:020}\n".encode()
        number = int(parts[1].removesuffix(".json")) if parts[1].endswith(".json") else 0
        if not 1 <= number <= self.count:
            return None
        return encode(Commit(number, {}, "0" * 64, "here:1", "2026-01-01T00:00:00+00:00"))

    def is_file(self, *parts):
        self.asked += 1
        return False


def test_commits_follow_each_other(chain):
    """Numbers from 1 on, each with the hash of the one before; nothing else is in the folder."""
    assert chain.head() is None
    assert chain.last() is None
    assert list(chain.newest_first()) == []
    head = grown(chain, 7)
    assert (head.number, head.document) == (7, {"n": 7})
    assert chain.head() == head
    assert [chain.read(number).parent for number in range(2, 8)] == [chain.read(n).sha256 for n in range(1, 7)]
    assert chain.read(1).parent is None
    assert [commit.number for commit in chain.newest_first()] == [7, 6, 5, 4, 3, 2, 1]
    assert chain.folder.files(COMMITS) == [file_of(number) for number in range(1, 8)]
    assert chain.folder.files() == [HINT]
    assert list(verify_chain(chain)) == []
    with pytest.raises(StoreError, match=r"0{19}8\.json is missing"):
        chain.read(8)


@pytest.mark.parametrize("start", [0, 1, 4])
def test_who_comes_second_is_told_who_was_first(chain, start):
    """Nothing is overwritten, also where the first one has gone on; the second one goes on from the head."""
    before = grown(chain, start)
    first = chain.append({"who": 1}, before)
    for _ in range(2):
        with pytest.raises(Conflict, match=rf"place has changed: version {start + 1} was committed by \S+ mean"):
            chain.append({"who": 2}, before)
        chain.append({"who": 3}, chain.head())
    assert chain.read(start + 1) == first
    assert chain.append({"who": 2}, chain.head()).number == start + 4
    assert list(verify_chain(chain)) == []


def test_an_upload_that_finds_its_own_first_try_is_no_conflict(chain, monkeypatch):
    """An answer was lost on the way: the client puts once more, and the file is there."""
    before = grown(chain, 1)
    real = LocalFolder.create
    monkeypatch.setattr(LocalFolder, "create", lambda self, *rest: real(self, *rest) and real(self, *rest))
    assert chain.append({"n": 2}, before).number == 2
    assert chain.head().document == {"n": 2}


def test_the_head_is_found_by_four_looks(tmp_path):
    """The hint, the commit that it names, the one after it and its log; a lagging hint costs a look a commit."""
    chain = Chain(Counted(str(tmp_path)))
    grown(chain, 30)
    Counted.asked.clear()
    assert chain.head().number == 30
    log = f"{COMMITS}/{log_of(1, 1000)}"
    assert Counted.asked == [HINT, f"{COMMITS}/{file_of(30)}", f"{COMMITS}/{file_of(31)}", log]
    (tmp_path / HINT).write_text(f"{27:020}\n")
    Counted.asked.clear()
    assert chain.head().number == 30
    assert len(Counted.asked) == 7
    assert "list" not in Counted.asked


def test_a_million_commits_are_opened_as_fast_as_ten():
    """By the number of looks, which is all that it costs."""
    looks = []
    for count in (10, 1_000_000):
        folder = Endless(count, count)
        assert Chain(folder).head().number == count
        looks.append(folder.asked)
    assert looks[0] == looks[1] == 4


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.sampled_from(["append", "lag", "fold", "lose hint", "harm hint"]), max_size=25))
def test_whatever_happens_to_the_hint_and_the_files_the_head_is_the_last(tmp_path_factory, steps):
    """Against the list of what was appended."""
    chain = Chain(LocalFolder(str(tmp_path_factory.mktemp("chain"))), block=3)
    made = []
    for step in steps:
        if step == "append":
            made.append(chain.append({"n": len(made)}, chain.head()))
        elif step == "fold":
            fold(chain, keep=2, now=LATER)
        elif step == "lag":
            if made:
                (number := max(len(made) - 4, 1))
                chain.folder.replace(f"{number:020}\n".encode(), HINT)
        elif step == "lose hint":
            chain.folder.remove(HINT)
        else:
            chain.folder.replace(f"{len(made) + 7:020} 12345678\n".encode(), HINT)
        assert chain.head() == (made[-1] if made else None)
        assert list(chain.newest_first()) == made[::-1]
    assert [line for line in verify_chain(chain) if HINT not in line] == []


def test_every_byte_of_a_commit_and_of_the_hint_counts(chain):
    """Each is flipped in turn: the check names the file, and whoever reads it does."""
    grown(chain, 3)
    for name in (file_of(3), file_of(2)):
        data = chain.folder.read(COMMITS, name)
        for place in range(len(data)):
            chain.folder.write(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :], COMMITS, name)
            assert any(name in line for line in verify_chain(chain)), place
            with pytest.raises(StoreError, match=name):
                chain.read(int(name[:20]))
        chain.folder.write(data, COMMITS, name)
    data = chain.folder.read(HINT)
    for place in range(len(data) - 1):
        for bit in range(8):
            chain.folder.write(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :], HINT)
            assert [line.partition(" ")[0] for line in verify_chain(chain)] == [chain.folder.path(HINT)], (place, bit)
            assert chain.head().number == 3
    chain.folder.write(data, HINT)
    assert list(verify_chain(chain)) == []


def test_what_was_changed_with_a_hash_anew_is_found_by_the_next(chain):
    """Whoever rewrites a commit must rewrite all after it."""
    grown(chain, 3)
    forged = encode(replace(chain.read(2), document={"n": 99}))
    chain.folder.write(forged, COMMITS, file_of(2))
    assert decode(forged, 2, "").document == {"n": 99}
    (line,) = verify_chain(chain)
    assert line == f"{chain.path(3)} is damaged: its parent is not commit 2 as it stands there"
    chain.folder.remove(COMMITS, file_of(2))
    assert list(verify_chain(chain)) == [f"{chain.path(2)} is missing: commit 2 of 3"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"number": 4}, "it is commit 4"),
        ({"document": []}, "its document is no object"),
        ({"time": "2026-01-01T00:00:00"}, "its time has no offset"),
        ({"time": 7}, "argument must be str"),
    ],
)
def test_what_has_its_hash_and_is_no_commit(chain, change, why):
    """It says why."""
    commit = grown(chain, 1)
    with pytest.raises(StoreError, match=why):
        decode(encode(replace(commit, **change)), 1, "x.json")


def test_a_document_holds_what_json_can_hold(chain):
    """Any text and number, but not NaN."""
    chain.folder.make()
    document = {"é\n": [1, 2.5, None, True, {"a": "\u2028"}], "": -1e300}
    assert chain.append(document, None).document == document
    assert chain.head().document == json.loads(json.dumps(document))
    with pytest.raises(ValueError, match="not JSON compliant"):
        chain.append({"a": float("nan")}, chain.head())


def test_old_commits_are_folded_into_logs(chain):
    """Blocks older than the last so many and than a day; all are read as before, and the chain goes on."""
    commits = list(grown(chain, 23) and chain.newest_first())
    (before := chain.folder.files(COMMITS))
    assert fold(chain, keep=10) == 0, "they are young"
    assert fold(chain, keep=30, now=LATER) == 0, "they are among the last"
    assert chain.folder.files(COMMITS) == before
    assert fold(chain, keep=10, now=LATER) == 10
    assert chain.folder.files(COMMITS) == [*map(file_of, range(11, 24)), log_of(1, 5), log_of(6, 10)]
    assert list(chain.newest_first()) == commits
    assert [chain.read(number) for number in range(23, 0, -1)] == commits
    assert list(verify_chain(chain)) == []
    assert fold(chain, keep=10, now=LATER) == 0
    head = grown(chain, 1)
    assert head.number == 24
    for hint in (1, 7, 10):
        chain.folder.replace(f"{hint:020}\n".encode(), HINT)
        assert chain.head() == head, "a hint into a log"
    fold(chain, keep=0, now=LATER)
    chain.folder.remove(HINT)
    assert chain.head() == head
    assert chain.hint() is None


def test_a_fold_that_is_cut_short_is_finished_by_the_next(chain, monkeypatch):
    """After the log, after each file: every commit is there once, the hint is at the head."""
    commits = list(grown(chain, 12) and chain.newest_first())
    real = LocalFolder.remove
    for left in range(4):
        chain.folder.replace(f"{3:020}\n".encode(), HINT)
        allowed = [left]

        def remove(self, *parts, allowed=allowed):
            if parts[0] == COMMITS and parts[1].endswith(".json"):
                allowed[0] -= 1
                if allowed[0] < 0:
                    raise KeyboardInterrupt
            real(self, *parts)

        monkeypatch.setattr(LocalFolder, "remove", remove)
        with pytest.raises(KeyboardInterrupt):
            fold(chain, keep=2, now=LATER)
        monkeypatch.undo()
        assert chain.hint() == 12
        assert list(chain.newest_first()) == commits
        assert list(verify_chain(chain)) == []
    fold(chain, keep=2, now=LATER)
    assert chain.folder.files(COMMITS) == [file_of(11), file_of(12), log_of(1, 5), log_of(6, 10)]


def test_a_writer_of_long_ago_has_lost(chain):
    """Its number looks free, for the commit was folded away: it finds that out after its put, and leaves nothing."""
    olds = [None, *reversed(list(grown(chain, 13) and chain.newest_first()))]
    fold(chain, keep=3, now=LATER)
    before = chain.folder.files(COMMITS)
    for old in olds[:-1]:
        with pytest.raises(Conflict, match="was committed by"):
            chain.append({"late": True}, old)
    assert chain.folder.files(COMMITS) == before
    assert chain.head() == olds[-1]
    # killed between its put and its look
    chain.folder.create(encode(replace(olds[4], document={"late": True})), COMMITS, file_of(4))
    (line,) = verify_chain(chain)
    assert file_of(4) in line
    assert chain.head() == olds[-1]
    assert fold(chain, keep=3, now=LATER) == 1
    assert list(verify_chain(chain)) == []


@pytest.mark.parametrize("hint", [13, 12, None])
def test_a_writer_of_long_ago_has_lost_where_the_logs_have_gone_too(chain, hint):
    """Retention has removed the commit that its number was, and the one behind it: the hint knows of later ones."""
    olds = [None, *reversed(list(grown(chain, 13) and chain.newest_first()))]
    fold(chain, keep=3, now=LATER)
    for log in [name for name in chain.folder.files(COMMITS) if name.startswith("log-")]:
        chain.folder.remove(COMMITS, log)
    if hint is not None:
        chain.folder.replace(f"{hint:020}\n".encode(), HINT)
    before = chain.folder.files(COMMITS)
    assert before == [*map(file_of, range(11, 14))]
    for old in olds[:-1]:
        with pytest.raises(Conflict):
            chain.append({"late": True}, old)
    assert chain.folder.files(COMMITS) == before
    assert chain.append({}, chain.head()).number == 14


def test_a_hint_of_what_was_never_committed_keeps_nobody_out(chain):
    """It says a number without a commit, as after a copy of half a folder."""
    head = grown(chain, 3)
    chain.folder.replace(f"{9:020}\n".encode(), HINT)
    assert chain.append({}, head).number == 4
    assert chain.hint() == 4


def test_a_number_below_the_head_that_is_free_is_no_way_in(chain):
    """A commit was removed by hand: whoever puts another one in its place does not fit to the next."""
    grown(chain, 3)
    before = chain.read(1)
    chain.folder.remove(COMMITS, file_of(2))
    with pytest.raises(Conflict):
        chain.append({"n": 0}, before)
    assert chain.folder.files(COMMITS) == [file_of(1), file_of(3)]


def test_a_block_with_a_damaged_commit_is_not_folded(chain):
    """Nor removed: it is told of, and the others are."""
    grown(chain, 15)
    data = chain.folder.read(COMMITS, file_of(2))
    chain.folder.write(data[:-2], COMMITS, file_of(2))
    told = []
    assert fold(chain, keep=2, now=LATER, warn=told.append) == 5
    assert len(told) == 1
    assert f"commits 1 to 5 are not folded: {chain.path(2)} is damaged" in told[0]
    assert chain.folder.files(COMMITS)[:5] == [*map(file_of, range(1, 6))]


def test_files_stay_beside_a_log_that_is_not_whole(chain, monkeypatch):
    """One of a disk without links, say, whose writer was killed while it wrote; or of nobody knows whom."""
    commits = list(grown(chain, 12) and chain.newest_first())
    whole = b"".join(chain.folder.read(COMMITS, file_of(number)) for number in range(1, 6))
    for torn in (whole[:-9], whole[: whole.index(b"\n") + 1], b""):
        chain.folder.write(torn, COMMITS, log_of(1, 5))
        told = []
        assert fold(chain, keep=6, now=LATER, warn=told.append) == 0
        assert told == [f"{chain.folder.path(COMMITS, log_of(1, 5))} is damaged: the files of its commits stay"]
        assert list(chain.newest_first()) == commits
    chain.folder.remove(COMMITS, log_of(1, 5))
    real = LocalFolder.create
    monkeypatch.setattr(LocalFolder, "create", lambda self, data, *parts: real(self, data[:-1], *parts))
    assert fold(chain, keep=6, now=LATER, warn=told.append) == 0
    assert told[1:] == ["commits 1 to 5 are not folded: their log is another one"]
    assert list(chain.newest_first()) == commits


def test_every_byte_of_a_log_counts(chain):
    """The check names it."""
    grown(chain, 7)
    fold(chain, keep=1, now=LATER)
    name = log_of(1, 5)
    data = chain.folder.read(COMMITS, name)
    rng = random.Random(7)
    for place in [*rng.sample(range(len(data)), 300), len(data) - 1]:
        chain.folder.write(
            data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :], COMMITS, name
        )
        assert any(name in line for line in verify_chain(chain)), place


def test_a_disk_that_is_full_says_which_file(tmp_path, monkeypatch):
    """And leaves nothing beside it."""

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    plain = Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **b: Full() if a == ("xb",) else plain(self, *a, **b))
    with pytest.raises(OSError, match=r"No space left on device: '.*/some\.json'"):
        LocalFolder(str(tmp_path)).write(b"x", "some.json")
    assert list(tmp_path.iterdir()) == []


def test_a_hint_that_cannot_be_written_is_no_failure(chain, monkeypatch):
    """The commit stands all the same."""

    def full(self, data, *parts):
        raise OSError(28, "No space left on device")

    before = grown(chain, 2)
    monkeypatch.setattr(LocalFolder, "replace", full)
    assert chain.append({"n": 3}, before).number == 3
    monkeypatch.undo()
    assert chain.hint() == 2
    assert chain.head().number == 3
