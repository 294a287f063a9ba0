"""Compiled kernels are kept between processes, and never used once a source that they call has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import ceps

HELPER = "from ceps.kernels.jit import kernel\n\n\n@kernel\ndef inner(x):\n    return x + {}\n"
CALLER = (
    "from ceps.kernels.jit import kernel\nfrom ceps.kernels.helper import inner\n\n\n"
    "@kernel\ndef outer(x):\n    return 10 * inner(x)\n"
)
RUN = "from ceps.kernels.caller import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


def call(folder: Path) -> tuple[int, int]:
    """What a fresh process gets from the kernel, and how often it took a kept one."""
    run = subprocess.run([sys.executable, "-c", RUN], cwd=folder, capture_output=True, text=True, check=True)
    value, hits = run.stdout.split()
    return int(value), int(hits)


def test_a_changed_helper_in_another_file_is_seen(tmp_path):
    """The caller's own file does not change, and yet it is compiled anew; unchanged sources are not."""
    package = tmp_path / "ceps" / "kernels"
    package.mkdir(parents=True)
    for empty in (package.parent, package):
        (empty / "__init__.py").touch()
    shutil.copy(Path(ceps.__file__).parent / "kernels" / "jit.py", package)
    (package / "caller.py").write_text(CALLER)
    (package / "helper.py").write_text(HELPER.format(1))
    assert call(tmp_path) == (20, 0)
    assert call(tmp_path) == (20, 1)
    (package / "helper.py").write_text(HELPER.format(20))
    assert call(tmp_path) == (210, 0)


def test_an_index_beyond_an_array_is_an_error_in_checked_mode(tmp_path):
    """And what was compiled without the comparison is not used for it, nor the other way round."""
    package = tmp_path / "ceps" / "kernels"
    package.mkdir(parents=True)
    for empty in (package.parent, package):
        (empty / "__init__.py").touch()
    shutil.copy(Path(ceps.__file__).parent / "kernels" / "jit.py", package)
    (package / "caller.py").write_text(
        "from ceps.kernels.jit import kernel\n\n\n@kernel\ndef outer(values, i):\n    return values[i]\n"
    )
    run = (
        "import sys, numpy as np\nfrom ceps.kernels.caller import outer\nprint(outer(np.arange(3.0), int(sys.argv[1])))"
    )
    for checked, place, said in (("1", 2, "2.0"), ("0", 2, "2.0"), ("1", 3, "IndexError: index is out of bounds")):
        done = subprocess.run(
            [sys.executable, "-c", run, str(place)], cwd=tmp_path, env=os.environ | {"DTOSS_CHECKED": checked},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert said in (done.stdout if place == 2 else done.stderr).splitlines()
