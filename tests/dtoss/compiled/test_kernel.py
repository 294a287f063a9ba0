"""Kernels are compiled when they are called, once, and never used once anything that they reach has changed."""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dtoss
from dtoss.compiled import kept_places
from tests.dtoss.compiled.forked_code import Forking

ROOT = Path(__file__).parents[3]
HELPER = """
from small.kernels import kernel
from numba.extending import intrinsic

STEP = {step}

def _built(builder, value):
    return builder.add(value, value.type({added}))

@intrinsic
def shift(typingctx, value):
    def codegen(context, builder, sig, args):
        return _built(builder, args[0])
    return value(value), codegen

@kernel
def inner(x):
    return {body}

@kernel("int64(int64)")
def other(x):
    "Return the number before."
    return x - 1
"""
OUTER = """
from small.helper import inner, shift
from small.kernels import kernel

@kernel("int64(int64)")
def outer(x):
    return shift(inner(x))
"""
KERNELS = "from dtoss.compiled.kernel import *\nfrom dtoss.compiled.kernel import DECLARED, kernel\n"
RUN = """
from small.outer import outer
from small.helper import other
before = len(outer.overloads) + len(other.overloads)
print(outer(20), other(20), before, *(sum(k.stats.cache_hits.values()) for k in (outer, other)))
"""


class Small:
    """A package of two files with kernels, which a fresh process imports and calls."""

    def __init__(self, folder, forking):
        self.forking = forking
        self.place = folder / "package"
        self.env = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
        (self.place / "small").mkdir(parents=True)
        (self.place / "small" / "__init__.py").touch()
        (self.place / "small" / "kernels.py").write_text(KERNELS)
        (self.place / "small" / "outer.py").write_text(OUTER)
        self.helper()

    def helper(self, step=0, added=0, body="x + 1 + STEP"):
        text = HELPER.format(step=step, added=added, body=body)
        (self.place / "small" / "helper.py").write_text(text)

    def run(self, code=RUN, place=None, **env):
        done = self.forking.run(code, self.place, self.env | env, [str(place or self.place), str(ROOT)])
        assert done.returncode == 0, done.stderr
        return done

    def answer(self):
        """(outer(20), other(20), compiled at import, times outer was found on disk, times other was)."""
        return tuple(int(part) for part in self.run().stdout.split())


@pytest.fixture(scope="module")
def forking():
    """What starts fresh processes that have numba loaded already."""
    with Forking() as process:
        yield process


@pytest.fixture
def small(tmp_path, forking):
    return Small(tmp_path, forking)


def test_nothing_is_compiled_before_it_is_called(small):
    """And the next process finds it on disk."""
    assert small.answer() == (21, 19, 0, 0, 0)
    assert small.answer() == (21, 19, 0, 1, 1)


CALLER = """
from small.kernels import kernel
from small.outer import outer

@kernel("int64(int64)")
def caller(x):
    return outer(x) + 100
"""
BODIES = """
import gc
from llvmlite.binding import ModuleRef
from small.caller import caller
from small.outer import outer
print(outer(20))
modules = [one for one in gc.get_objects() if type(one) is ModuleRef]
print(sum("outer" in f.name and not f.is_declaration for one in modules for f in one.functions))
print(caller(20))
"""


def test_what_kernels_link_of_a_kept_one_is_read_when_one_does(small):
    """Until then it would take memory for nothing."""
    (small.place / "small" / "caller.py").write_text(CALLER)
    assert small.answer() == (21, 19, 0, 0, 0)
    assert small.run(BODIES).stdout.split() == ["21", "0", "121"]


@pytest.mark.parametrize(
    ("change", "value"),
    [({"body": "x * 2"}, 40), ({"step": 5}, 26), ({"added": 7}, 28)],
    ids=["body", "constant", "intrinsic"],
)
def test_what_a_kernel_reaches_is_compiled_anew_and_nothing_else(small, change, value):
    """A helper's body, a constant of its module, a function that an intrinsic calls: never a stale answer."""
    assert small.answer() == (21, 19, 0, 0, 0)
    small.helper(**change)
    assert small.answer() == (value, 19, 0, 0, 1)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_changed_helper_in_another_folder_is_seen(small, tmp_path, zipped):
    """Also where both come in a zip, as workers of a cluster import them; what does not reach it is kept."""
    room = small.place / "small" / "room"
    room.mkdir()
    (room / "__init__.py").touch()
    (small.place / "small" / "helper.py").rename(room / "helper.py")
    (small.place / "small" / "outer.py").write_text(OUTER.replace("small.helper", "small.room.helper"))

    def answer():
        place = shutil.make_archive(str(tmp_path / "one"), "zip", small.place) if zipped else small.place
        said = small.run(RUN.replace("small.helper", "small.room.helper"), place).stdout
        return tuple(int(part) for part in said.split())

    assert answer() == (21, 19, 0, 0, 0)
    assert answer() == (21, 19, 0, 1, 1)
    (room / "helper.py").write_text(HELPER.format(step=0, added=0, body="x * 2"))
    assert answer() == (40, 19, 0, 0, 1)


LOADED = """
import importlib, pathlib
from contextlib import suppress
import dtoss
root = pathlib.Path(dtoss.__file__).parents[1]
for file in (root / "dtoss").rglob("*.py"):
    if "@kernel(" in file.read_text():
        importlib.import_module(".".join(file.relative_to(root).with_suffix("").parts))
from dtoss.compiled import kept_code
from dtoss.compiled.kernel import DECLARED

class Missed(Exception):
    pass

def missed(name):
    raise Missed

kept_code.show_compiling = missed
for name, kernel in DECLARED.items():
    with suppress(Missed):
        kernel.ready()
        print(name)
"""


def test_a_change_in_the_sorting_of_rings_compiles_the_kernels_of_ranges_alone(tmp_path, forking):
    """All other kernels that are kept on disk are taken from there."""
    index = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    assert index.knn([0.9, 0.9], 2).id.tolist() == index.range([0.9, 0.9], 1.5e5).id.tolist() == [2, 1]
    kept = kept_places.writable(ROOT / "dtoss" / "__pycache__")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "dtoss").symlink_to(kept)

    def taken():
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "XDG_CACHE_HOME": str(tmp_path),
                            "DTOSS_KERNELS": "native"}  # fmt: skip
        done = forking.run(LOADED, tmp_path, env, [str(tmp_path)])
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    shutil.copytree(ROOT / "dtoss", tmp_path / "dtoss", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    before = taken()
    sorting = tmp_path / "dtoss" / "queries" / "kernels" / "hit_writing.py"
    text = sorting.read_text()
    sorting.write_text(text.replace("SPARSE = 32", "SPARSE = 64"))
    assert sorting.read_text() != text
    after = taken()
    assert {"dtoss.queries.kernels.knn_kernel.knn_kernel", "dtoss.cells.cell_kernel.cut_cells"} <= after
    assert before - after == {
        "dtoss.queries.kernels.one_kernel.within_of_one",
        "dtoss.queries.kernels.range_kernel.range_kernel",
    }
    assert after < before


def test_fields_of_a_named_tuple_are_found_where_they_are(small):
    """Also by a kernel that takes one and names its class nowhere: never in the order of an earlier version."""
    fields = "a: float\n    b: float"
    text = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    {}\nclass Both(NamedTuple):\n    pair: Pair\n"
    (small.place / "small" / "arguments.py").write_text(text.format(fields))
    (small.place / "small" / "taker.py").write_text("""
from small.kernels import kernel

@kernel
def first(both, more):
    return both.pair.a + more
""")
    (small.place / "small" / "maker.py").write_text("""
from small.arguments import Both, Pair
from small.kernels import kernel
from small.taker import first

@kernel("float64(float64)")
def maker(x):
    return first(Both(Pair(a=x, b=-x)), 1.0)
""")
    run = "from small.maker import maker; print(maker(20.0))"
    assert small.run(run).stdout == "21.0\n"
    swapped = "b: float\n    a: float"
    (small.place / "small" / "arguments.py").write_text(text.format(swapped))
    assert small.run(run).stdout == "21.0\n"


def test_comments_times_and_places_change_nothing(small):
    """Moved to another folder, touched, with lines in front and another docstring: what was compiled is used."""
    small.answer()
    helper = small.place / "small" / "helper.py"
    text = "# a comment\n\n" + helper.read_text()
    helper.write_text(text.replace("Return the number before.", "Return one less."))
    os.utime(helper, (1, 1))
    moved = small.place.with_name("moved")
    shutil.move(small.place, moved)
    small.place = moved
    assert small.answer() == (21, 19, 0, 1, 1)


def test_a_kernel_that_is_cut_short_on_disk_is_compiled_anew(small):
    """And replaced by a whole one."""
    small.answer()
    for file in Path(small.env["NUMBA_CACHE_DIR"]).rglob("*.nbc"):
        file.write_bytes(file.read_bytes()[:-100])
    assert small.answer() == (21, 19, 0, 0, 0)
    assert small.answer() == (21, 19, 0, 1, 1)


@pytest.mark.parametrize("gone", [b"cdtoss.compiled.lanes8\nGone\n.", b"cdtoss.gone\nLanes8\n."])
def test_a_kept_kernel_that_names_what_is_gone_is_compiled_anew(small, gone):
    """A class that was renamed since, or a module that was moved."""
    small.answer()
    for file in Path(small.env["NUMBA_CACHE_DIR"]).rglob("*.nbc"):
        file.write_bytes(hashlib.sha256(gone).digest() + gone)
    assert small.answer() == (21, 19, 0, 0, 0)
    assert small.answer() == (21, 19, 0, 1, 1)


def test_a_place_that_cannot_be_written_to_is_passed_over(small, tmp_path):
    """The user's cache is used then; and where there is none, kernels are compiled in each process."""
    (tmp_path / "file").touch()
    small.env |= {
        "NUMBA_CACHE_DIR": str(tmp_path / "file"),
        "XDG_CACHE_HOME": str(tmp_path / "user"),
        "HOME": str(tmp_path),
    }
    (small.place / "small" / "__pycache__").touch()  # a file where the folder would be
    assert small.answer() == (21, 19, 0, 0, 0)
    assert small.answer() == (21, 19, 0, 1, 1)
    small.env["XDG_CACHE_HOME"] = str(tmp_path / "file")
    assert small.answer() == (21, 19, 0, 0, 0)


def test_one_line_says_that_compiling_has_begun(small):
    """On stderr, once a process, and not where code is found on disk."""
    line = "dtoss: compiling, kernel 1 of 1, 0 s so far; once for this processor, and `dtoss warm` does it beforehand\n"
    assert small.run(DTOSS_QUIET="").stderr == line
    assert small.run(DTOSS_QUIET="").stderr == ""
    small.helper(body="x + 2")
    assert small.run(DTOSS_QUIET="1").stderr == ""


def test_kernels_that_kernels_call_have_what_python_needs(small):
    """They print and raise, compiled, linked from what is kept, and loaded with their caller."""
    (small.place / "small" / "telling.py").write_text("""
from small.kernels import kernel

@kernel
def inner(x):
    print("inner", x)
    if x > 5:
        raise ValueError("too large")
    return x + 1

@kernel
def middle(x):
    return inner(x) + inner(x + 1)

@kernel("int64(int64)")
def outer(x):
    return middle(x)
""")
    run = """
from small.telling import outer
print(outer(2))
try:
    outer(5)
except ValueError as error:
    print(error)
"""
    said = "inner 2\ninner 3\n7\ninner 5\ninner 6\ntoo large\n"
    assert small.run(run).stdout == said
    assert small.run(run).stdout == said
    for file in Path(small.env["NUMBA_CACHE_DIR"]).rglob("small.telling.outer-*.nbc"):
        file.unlink()
    assert small.run(run).stdout == said


def test_processes_that_need_a_kernel_at_once_compile_it_once(small):
    """One has its turn, the others wait and load what it made: the workers of a rebuild all begin with the same one."""
    code = """
import sys, time
from small.outer import outer
print("ready", flush=True)
sys.stdin.readline()
print(outer(20), sum(outer.stats.cache_hits.values()), sum(outer.stats.cache_misses.values()))
"""
    env = small.env | {"PYTHONPATH": os.pathsep.join([str(small.place), str(ROOT)])}
    run = [sys.executable, "-B", "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    several = [subprocess.Popen(run, cwd=small.place, env=env, **pipes) for _ in range(4)]
    for process in several:
        assert process.stdout.readline() == "ready\n"
    for process in several:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=200)[0] for process in several]
    assert sorted(said) == ["21 0 1\n", *["21 1 0\n"] * 3]


def test_a_process_that_was_stopped_while_it_compiled_is_not_waited_for_long(tmp_path):
    """Nor is a place waited for whose files cannot be locked."""
    held = subprocess.Popen(
        [sys.executable, "-c", "import sys, pathlib; from dtoss.compiled.kept_places import turn\n"
         "with turn(pathlib.Path(sys.argv[1]), 'a.b'): print('held', flush=True); sys.stdin.readline()", str(tmp_path)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert held.stdout.readline() == "held\n"
    for kernel in ("a.b", "a.c"):
        with kept_places.turn(tmp_path, kernel, longest=0.2):
            pass
    with kept_places.turn(tmp_path / "none", "a.b", longest=0.2), kept_places.turn(None, "a.b"):
        held.communicate("\n", timeout=60)


def test_a_declared_kernel_takes_its_signatures_only(small):
    """Other numbers are converted, other types refused, also when the first call comes from a kernel or a thread."""
    code = """
import threading
from small.helper import other
from small.kernels import kernel
try:
    other("text")
except TypeError as error:
    print("No matching definition" in str(error))
threads = [threading.Thread(target=other, args=(3,)) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
@kernel("float64(int32)")
def caller(x):
    return other(x)
print(caller(7), [str(s) for s in other.signatures])
"""
    assert small.run(code).stdout == "True\n6.0 [(int64,)]\n".replace("[(int64,)]", "['(int64,)']")


def test_importing_everything_compiles_nothing(tmp_path):
    """No file is written, and no kernel is loaded from one."""
    code = """
import importlib, pkgutil, dtoss
for module in pkgutil.walk_packages(dtoss.__path__, "dtoss."):
    importlib.import_module(module.name)
from dtoss.compiled.kernel import DECLARED
print(len(DECLARED) > 20, [name for name, kernel in DECLARED.items() if kernel.overloads])
"""
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (0, "True []\n"), done.stderr
    assert not list(tmp_path.iterdir())


def test_a_question_compiles_what_answers_it(tmp_path):
    """The k nearest of one place need one kernel, those of several three others, whatever built the index."""
    code = """
import sys, pickle, dtoss
from dtoss.compiled.kernel import DECLARED
index = pickle.loads(open(sys.argv[1], "rb").read())
def compiled():
    return sorted(name for name, kernel in DECLARED.items() if kernel.overloads)
print(compiled())
assert index.knn([0.9, 0.9], 2).id.tolist() == [2, 1]
print(compiled())
assert index.knn([[0.9, 0.9], [1.1, 0.9]], 1).id.tolist() == [2, 2]
print(compiled())
"""
    index = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    (tmp_path / "index").write_bytes(pickle.dumps(index))
    run = [sys.executable, "-c", code, str(tmp_path / "index")]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    one = ["dtoss.queries.kernels.one_kernel.nearest_to_one"]
    several = [
        "dtoss.geometry.space._first_beyond",
        "dtoss.geometry.space._unit_vectors",
        "dtoss.queries.kernels.knn_kernel.knn_kernel",
    ]
    assert done.stdout.splitlines() == ["[]", str(one), str(several + one)]


WARM = """
from numba.core import event
from dtoss.warm import warm
from tests.dtoss.compiled.every_kernel import hashes
print(warm())
with event.install_recorder("numba:compile") as compiling:
    print(len(hashes(0.2)))
print([str(one.data) for _, one in compiling.buffer])
"""


def test_after_warming_nothing_is_compiled_whatever_is_asked(forking):
    """Builds, all questions and files of small worlds: numba itself is asked what it compiled."""
    done = forking.run(WARM, ROOT, os.environ | {"DTOSS_KERNELS": "native"}, [str(ROOT)])
    assert done.returncode == 0, done.stderr
    kernels, asked, compiled = done.stdout.splitlines()
    assert int(kernels) > 100
    assert int(asked) > 150
    assert compiled == "[]"
