"""What the package offers, however it is imported."""

import importlib
import pkgutil

import dtoss
import dtoss.opening


def test_no_module_hides_what_the_package_offers():
    """``dtoss.build`` and ``dtoss.open`` are functions, also after all modules were imported."""
    for module in pkgutil.walk_packages(dtoss.__path__, "dtoss."):
        importlib.import_module(module.name)
    index = dtoss.build([1], [[0.0, 0.0]])
    assert isinstance(index, dtoss.Index)
    assert isinstance(index.knn([0.0, 0.0]), dtoss.Hits)
    assert dtoss.open is dtoss.opening.open_index
    assert set(dtoss.__all__) <= set(dir(dtoss))
