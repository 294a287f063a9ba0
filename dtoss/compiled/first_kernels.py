"""Which kernels first calls need: how many there are is told to whoever waits, and a second process makes half of them.

Those that take long and come late stand first, as the second process begins with them.
"""

from __future__ import annotations

BUILDING = (
    "dtoss.cells.rim.cut_rim_cells",
    "dtoss.building.construct._blocks",
    "dtoss.partitioning.assign._assign",
    "dtoss.cells.cell_polygons._shape",
    "dtoss.cells.voronoi._close_up",
    "dtoss.cells.neighbour_lists._replace",
    "dtoss.cells.diagram._one_sided",
    "dtoss.id_filter._fill_of_numbers",
    "dtoss.cells.cell_kernel.cut_cells",
    "dtoss.cells.box_tree._children",
    "dtoss.cells.box_tree._columns",
    "dtoss.cells.box_tree._fill",
    "dtoss.geometry.hilbert._settle_ties",
    "dtoss.geometry.hilbert._radix_order",
    "dtoss.geometry.hilbert._keys",
    "dtoss.geometry.hilbert._arrange",
    "dtoss.geometry.space._unit_vectors",
    "dtoss.geometry.space._first_beyond",
)
"""What makes an index."""
ASKING = (
    "dtoss.queries.kernels.one_kernel.nearest_to_one",
    "dtoss.queries.kernels.one_kernel.within_of_one",
    "dtoss.queries.kernels.knn_kernel.knn_kernel",
    "dtoss.queries.kernels.zone_kernel.zone_kernel",
    "dtoss.queries.one_cell.draw_cell",
    "dtoss.partitioning.partition_bounds._reads",
    "dtoss.geometry.polygon_tables._strips",
    "dtoss.queries.kernels.id_search.place_of_number",
    "dtoss.partitioning.regions._nearest",
    "dtoss.geometry.distance._distances",
)
"""What answers a first question of each kind."""


def needed_with(kernel: str) -> tuple[str, ...]:
    """Return the kernels that are needed where one is; none where that is not known."""
    return next((group for group in (BUILDING, ASKING) if kernel in group), ())


def next_after(kernel: str) -> tuple[str, ...]:
    """Return what else will be needed, where one kernel is: what is built is asked."""
    group = needed_with(kernel)
    return (*group, *ASKING) if group is BUILDING else group
