"""What is compiled beforehand is all that planning calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ceps

RUN = """
from dataclasses import replace
import numpy as np
import ceps
from ceps.warm_planners import compiled, warm
from tests.ceps.instances import servers, waves
assert compiled() == {}
warm()
before = compiled()
made, kinds = waves(30, 30_000.0), servers(4e9)
home = ceps.plan(made, servers=kinds)
for method in ceps.METHODS:
    if method != "gp-aas":  # it changes servers all day, and has no plan
        ceps.plan(made, servers=kinds, method=method)
ceps.plan(waves(30, 31_000.0, seed=1), servers=kinds, previous=home, move_budget=0.3)
ceps.plan(made, servers=kinds, copies=2)
reads = ceps.Reads(np.arange(0, 31, 2), np.arange(30), np.ones(15), total=20.0)
for call_cost in (0.0, 1e6):
    ceps.plan(replace(made, reads=reads), servers=kinds, call_cost=call_cost)
ceps.plan(waves(30, 31_000.0, noise=0.9), servers=kinds, prove=3.0)
print(len(before), sorted(name for name, number in compiled().items() if before.get(name) != number))
"""


def test_a_plan_compiles_nothing_after_warming():
    """By no method, not where little may be moved, and not where requests read several partitions."""
    root = Path(ceps.__file__).parents[1]
    run = [sys.executable, "-c", RUN]
    done = subprocess.run(run, cwd=root, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    count, fresh = done.stdout.split(maxsplit=1)
    assert int(count) >= 11
    assert fresh == "[]\n"
