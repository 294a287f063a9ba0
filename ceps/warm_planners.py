"""Compiling the kernels of planning before anyone waits for them."""

from __future__ import annotations

from importlib import import_module

import numpy as np
from numba.core.dispatcher import Dispatcher

_MODULES = tuple(
    f"ceps.kernels.{name}" for name in ("anneal", "cooling", "merge", "overload_search", "pack", "subsets")
)


def warm() -> None:
    """Compile every kernel of planning for this processor, where it is not kept yet.

    Each is called as planners call it, on a plan of six items. Half a minute of processor time where nothing is kept.
    """
    from ceps.bounds.fluid import weightings
    from ceps.bounds.placing import pack_nearly_full
    from ceps.model.calls_per_request import item_reads
    from ceps.model.packing import Effort, Packing
    from ceps.model.patterns import Patterns
    from ceps.model.problem import build_problem
    from ceps.model.reads import Reads
    from ceps.model.servers import ServerType
    from ceps.planners.ahr import METRICS, agglomerate
    from ceps.planners.annealing import anneal
    from ceps.planners.fewer_calls import anneal_labels
    from ceps.planners.fleet_first import first_fit_plan

    loads = np.array([[6.0, 1.0], [5.0, 2.0], [4.0, 3.0], [1.0, 6.0], [2.0, 5.0], [3.0, 4.0]])
    kinds = (ServerType("small", 10.0, 100.0, 1.0), ServerType("large", 20.0, 200.0, 2.0))
    problem = build_problem(Patterns(loads, np.full(6, 10.0)), kinds)
    home = np.zeros(6, np.int64)
    packing = Packing(problem, np.array([0, 0, 0]), np.full(6, -1))
    packing.fill()
    packing.send_home(home)
    packing.balance(np.random.default_rng(0), Effort(steps=1))
    packing = Packing(problem, np.array([0, 0, 0]), home)
    packing.relieve(np.random.default_rng(0), Effort(steps=1))
    reads = item_reads(problem, Reads(np.array([0, 2]), np.array([0, 1]), np.ones(1), total=1.0))
    anneal_labels(problem, np.array([0, 0]), np.array([0, 1] * 3), reads, np.random.default_rng(0), Effort())
    first_fit_plan(problem)
    anneal(problem, np.array([0, 0]), np.random.default_rng(0), Effort(steps=1), steps=6)
    weightings(problem)
    pack_nearly_full(problem, np.array([0, 0, 0]))
    for metric in METRICS:
        agglomerate(problem, 0, metric)


def compiled() -> dict[str, int]:
    """Return for each kernel of planning that is compiled for how many kinds of arguments it is."""
    found = {}
    for module in map(import_module, _MODULES):
        for name, kernel in vars(module).items():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module.__name__ and kernel.overloads:
                found[f"{module.__name__}.{name}"] = len(kernel.overloads)
    return found
