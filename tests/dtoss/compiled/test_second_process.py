"""Who waits for compiling is told how far it is, and a second process takes a part of it, which ends with the first."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtoss.compiled.first_kernels import ASKING, BUILDING
from dtoss.locks import processors
from tests.dtoss.compiled.forked_code import Forking

ROOT = Path(__file__).parents[3]
SHARED = pytest.mark.skipif(processors() == 1, reason="who has one processor compiles in one process")
TWO = """
from dtoss.compiled.kernel import kernel

@kernel("int64(int64)")
def one(x):
    return x + 1

@kernel("int64(int64)")
def two(x):
    return x + 2
"""


@pytest.fixture(scope="module")
def forking():
    """What starts fresh processes that have numba loaded already."""
    with Forking() as process:
        yield process


@pytest.fixture
def run(tmp_path, forking):
    """Runs code beside a module with two kernels, where nothing is kept; returns what it has said."""
    (tmp_path / "several.py").write_text(TWO)

    def said(code, **env):
        env = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "XDG_CACHE_HOME": str(tmp_path), "DTOSS_QUIET": ""} | env
        done = forking.run(code, tmp_path, os.environ | env, [str(tmp_path), str(ROOT)])
        assert done.returncode == 0, done.stderr
        return done

    return said


def test_lines_tell_which_kernel_of_how_many_ever_more_seldom(run):
    """From one to the next as long as all has taken; nobody is told where all is kept, or quiet is wanted."""
    code = """
from dtoss.compiled import compiling
compiling.FIRST_SECONDS = {first}
compiling.MOST_SECONDS = {most}
compiling.expect(["several.one", "several.two"])
from several import one, two
print(one(1), two(1))
"""
    for most, numbers in ((0.001, {"1", "2"}), (30.0, {"1"})):
        env = {"DTOSS_SECOND_PROCESS": "1", "NUMBA_CACHE_DIR": f"kept{most}"}
        lines = run(code.format(first=0.001, most=most), **env).stderr.splitlines()
        told = [re.match(r"dtoss: compiling, kernel (\d) of 2, \d+ s so far", line) for line in lines]
        assert None not in told
        assert numbers <= {match[1] for match in told}
    assert 2 <= len(told) <= 20
    code = code.format(first=2.0, most=30.0)
    assert run(code, DTOSS_QUIET="1").stderr == ""
    assert run(code).stderr == ""


def test_a_call_that_fails_on_its_arguments_compiles_nothing(run, tmp_path):
    """Nor does it tell of compiling."""
    code = """
import dtoss
for ids, options in (([1, 1], {}), (["a", "a"], {}), ([1, 2], {"partitions": 0}), ([1, 2], {"columns": {"a": [1]}})):
    try:
        dtoss.build(ids, [[0.0, 0.0], [1.0, 1.0]], **options)
    except ValueError as error:
        print("refused")
print(dtoss.__file__)
"""
    shutil.copytree(ROOT / "dtoss", tmp_path / "dtoss", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    done = run(code)
    assert done.stdout.split() == [*["refused"] * 4, str(tmp_path / "dtoss" / "__init__.py")]
    assert done.stderr == ""


def test_the_kernels_of_first_calls_are_those_that_the_readme_needs():
    """All of them, and no others: the number that is told is true."""
    code = r"""
import re, sys
from pathlib import Path
exec(re.search(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL).group(1))
from dtoss.compiled.kernel import DECLARED
print(*(name for name, kernel in DECLARED.items() if kernel.overloads), file=sys.stderr)
"""
    env = os.environ | {"DTOSS_QUIET": "1", "DTOSS_KERNELS": "native"}
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.split()) == {*BUILDING, *ASKING}


@SHARED
def test_a_second_process_keeps_what_it_compiles(run):
    """Where this one finds it; the code of whoever started it is not run again."""
    done = run("""
import time
from pathlib import Path
from dtoss.compiled.second_process import start_next
print("once")
start_next(["several.two", "several.one"])
kept = Path("kept", "dtoss")
end = time.monotonic() + 120.0
while not (any(kept.glob("several.one-*.nbc")) and any(kept.glob("several.two-*.nbc"))):
    assert time.monotonic() < end
    time.sleep(0.05)
from several import one, two
print(one(1), two(1), sum(two.stats.cache_hits.values()))
""")
    assert (done.stdout, done.stderr) == ("once\n2 3 1\n", "")


@pytest.mark.parametrize(
    ("before", "env"),
    [
        ("", {"DTOSS_SECOND_PROCESS": "1"}),
        ("sys.frozen = True", {}),
        ("sys.executable = ''", {}),
        ("os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])", {}),
        ("from dtoss.compiled import second_process; second_process.writable = lambda place: None", {}),
    ],
    ids=["a second one", "an application", "no program", "one processor", "nothing is kept"],
)
def test_where_there_can_be_no_second_process_this_one_compiles(run, before, env):
    """As it does where the start fails."""
    code = """
import os, subprocess, sys
{before}
subprocess.Popen = None
from dtoss.compiled import compiling
compiling.expect(["several.one", "several.two"])
from several import one
print(one(1))
"""
    assert run(code.format(before=before), **env).stdout == "2\n"
    none = code.format(before="sys.executable = '/none'").replace("subprocess.Popen = None", "").replace("one", "two")
    assert run(none.replace("/ntwo", "/none")).stdout == "3\n"


@SHARED
def test_a_second_process_ends_with_one_that_is_killed(tmp_path):
    """Whatever it compiles then."""
    (tmp_path / "slow.py").write_text(
        "import os, time, pathlib\npathlib.Path('new').write_text(str(os.getpid()))\n"
        "os.rename('new', 'pid')\ntime.sleep(600)\n"
    )
    code = "import time; from dtoss.compiled.second_process import start_next as start; start(['slow.kernel'])"
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    first = subprocess.Popen([sys.executable, "-c", f"{code}; time.sleep(600)"], cwd=tmp_path, env=env)
    _until((tmp_path / "pid").exists)
    second = int((tmp_path / "pid").read_text())
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    _until(lambda: not _runs(second))


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(done):
    end = time.monotonic() + 60.0
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)
