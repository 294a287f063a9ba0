"""Exact nearest-neighbour and range answers over millions of moving objects, from Voronoi diagrams rebuilt every cycle.

>>> import dtoss
>>> index = dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
>>> index.knn([[0.9, 0.9]], k=1).id.tolist()
[2]
"""

from __future__ import annotations

from dtoss.build import build
from dtoss.errors import DtossError, InputError, StoreError
from dtoss.hits import Hits
from dtoss.index import Index
from dtoss.snapshot import open_index as open  # noqa: A004  as in gzip.open: the verb users expect

__version__ = "0.1.0"
__all__ = ["DtossError", "Hits", "Index", "InputError", "StoreError", "build", "open"]
