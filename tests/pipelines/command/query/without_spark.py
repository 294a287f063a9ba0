"""Small stores that are made without Spark."""

from __future__ import annotations

import numpy as np

import dtoss
from tests.dtoss.snapshots import damaged_stores

KINDS = {"int64": "bigint", "string": "string", "double": "double"}


def stored(tmp_path_factory, ids, positions, crs=None, columns=None, metric=None):
    """The path of a store of one snapshot of one partition."""
    index = dtoss.build(np.asarray(ids), positions, crs=crs, metric=metric, columns=columns, partitions=1)
    kinds = {name: KINDS[str(values.type)] for name, values in index.parts[0].attributes.items()}
    return damaged_stores.stored(index, tmp_path_factory.mktemp("store"), kinds=kinds)
