"""Memory that was freed goes back, also from between what stays."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

CODE = """
import re, sys
if sys.argv[1] == "back":
    from dtoss.serve.processes.freed_memory import give_back
    give_back()
import numpy as np
import pyarrow as pa
def resident():
    return int(re.search(r"^VmRSS:\\s+(\\d+)", open("/proc/self/status").read(), re.M)[1]) / 1024
np.ones(4_000_000)  # from now on glibc holds on to as much
began, stays = resident(), []
for turn in range(100):
    large = [np.ones(100_000) for _ in range(2)]
    stays += [bytes(2_000) for _ in range(2)]
    if turn == 0:
        kept = [large]
    kept.append(large)
del kept, large
print(resident() - began, pa.default_memory_pool().backend_name)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others need no telling, or do not listen")
def test_what_is_freed_goes_back():
    """160 MB between small things that stay; without the setting most of it is kept."""
    found = {}
    for how in ("back", "as usual"):
        run = [sys.executable, "-c", CODE, how]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
        found[how] = done.stdout.split()
    assert float(found["back"][0]) < 20
    assert found["back"][1] == "system"
    assert float(found["as usual"][0]) > 100
