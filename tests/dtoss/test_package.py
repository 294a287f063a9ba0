"""What the package offers, however it is imported."""

import subprocess
import sys
from pathlib import Path

ALL_MODULES_FIRST = """
import importlib, pkgutil
import dtoss
for module in pkgutil.walk_packages(dtoss.__path__, "dtoss."):
    importlib.import_module(module.name)
index = dtoss.build([1], [[0.0, 0.0]])
assert isinstance(index, dtoss.Index) and isinstance(index.knn([0.0, 0.0]), dtoss.Hits)
assert dtoss.open is dtoss.opening.open_index
assert set(dtoss.__all__) <= set(dir(dtoss))
"""


def test_no_module_hides_what_the_package_offers():
    """``dtoss.build`` and ``dtoss.open`` are functions, also after all modules were imported."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", ALL_MODULES_FIRST], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
