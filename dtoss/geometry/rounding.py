"""Tolerances: how far rounding may put a number from the truth, for all who decide something by comparing numbers.

Each says which error it covers and why it is enough; a test is named where one is known to fail without it. Where a
tolerance keeps what could have been left out, more of it costs only time; where it leaves out what is too small to
tell, more of it would cost edges.
``u`` is 2^-53, half the distance of 1 to the next number.
"""

from __future__ import annotations

# cells cut in the tangent plane of their site

CUT = 4e-15
"""A cut shallower than this share of the squared distance to the other site is rounding, not an edge.

A vertex is where two lines cross, and its depth beyond a third line a sum of products: together 36 u at the most where
lines cross at more than ``ACUTE``. It keeps lines that meet in one corner from cutting off what another one's rounding
left.
"""
ACUTE = 1e-2
"""Radians. Where lines cross at less than about this angle, their crossing has lost two digits and more.

It is computed once more from what is left of both equations there, which finds them again.
"""
PARALLEL = 1e-6
"""Radians. Lines that cross at less than about this angle have a crossing on the chord between two vertices.

Their own equations have lost six digits and more, and a second step no longer mends it; the chord is shorter than that.
"""

DISC_TOLERANCE = 16 * 2.0**-53
"""How much rounding makes of squared distances to a corner, as a share of its distance times how far it is from 0.

Its centre is off by 4 u, which counts twice, and a square by 8 u: 16 u. What it keeps is tried once more: time alone.
Test: ``test_a_long_cell_is_cut_by_all_that_stand_beside_its_site``.
"""

# cells of the sphere cut in 3-D

RIM_CUT = 4e-16
"""How deep a plane must cut the unit sphere to be an edge: the product of two unit vectors has an error of 3 to 4 u.

Test: ``test_areas_and_neighbours_equal_those_of_exact_arithmetic``.
"""
TIE = 1e-14
"""How much nearer than its own site another one may be to a corner, as a share of half the squared chord.

Corners of a line's cells lie in two poles where all sites are as near, but for the digits of some 90 roundings.
"""
STEEPEST_TIE = 1e-8
"""By how much of its own distance a site may be passed over for ``TIE`` at the most: the root of what digits tell.

Sites an ulp apart are cut as they stand.
"""
OPPOSITE = 1e-13
"""How far the unit normals of two borders may be from opposite for the lune between them to have no width.

Each has an error of some u times the distance of its sites by their difference; where only digits tell, the sites are
as near. Test: ``test_a_lune_of_no_width_holds_its_site``.
"""
NO_ARC2 = 1e-24
"""Squared chord of an edge that has no direction: 1e-12 is some thousand times the error of a corner.

Where many planes meet in one corner, rounding puts such edges in any order, and the angles between them mean nothing.
"""
OFF_PLANE = 3e-16
"""How far the last digits of unit vectors put a site from the plane of others: 2 to 3 u.

It only says which sites stand together in the tree along lines; answers do not depend on it.
Test: ``test_the_work_grows_as_the_logarithm``.
"""

# certificates, borders of partitions

CERTIFY = 1e-12
"""Relative tolerance of the corners of cells and of their distances: thousands of roundings, where dozens are made.

A site that is kept from being certified for it is cut again with those of other partitions: that costs time alone.
"""
BORDER = 32 * 2.0**-53
"""What rounding makes of half the difference of two powers, at most, as a share of the squares in it: 32 u.

``docs/cells.md`` derives it. Test: ``test_a_region_owns_nothing_beyond_the_tolerance_of_its_borders``.
"""

# queries

PRUNE = 1e-12
"""Relative tolerance of distances where something is left out as too far: thousands of roundings, dozens are made.

What it keeps is looked at once more: that costs time alone.
"""
SURE, TINY = 1e-9, 1e-300
"""Relative tolerance of squared distances within which only the reported distance tells what lies in the disc.

Reported distances have an error of some u. The second is the least that it is: the squares of the shortest distances
have few digits.
"""

# shapes, and what files and maps show

DETERMINANT = 4e-15
"""The error of a determinant of three vectors is less, relative to the sum of its terms' sizes: 36 u, and 10 are made.

A sign within it is computed again in rational numbers. Test: ``test_places_an_ulp_beside_an_edge_of_the_plane``.
"""
PROJECTED = 1e-14
"""Times the inverse square of its height, how far rounding may move a place in a gnomonic projection: some ten u.

What lies nearer to a ray than that is decided in rational numbers. Test: ``test_as_the_oracle_says``.
"""
VECTOR = 1e-15
"""How far from an arc in radians rounding of its ends and of a place may put that place: each is off by 2 u at most.

What is nearer is decided by the numbers that were written. Test: ``test_zones_that_share_an_edge_lose_nothing``.
"""
DISC, DISC_METRES = 1.0 + 1e-9, 1e-6
"""Times which, and metres by which, discs that cover a shape are larger than computed.

Chords and distances have errors of some u, and unit vectors of a nanometre.
"""
UNIT = 1e-9
"""How far the squared length of a unit vector may be from 1, in a file: those that we make are within 4 u.

It tells damage from rounding of other makers, and keeps squares of chords of their right size.
"""
ONE_CORNER = 1e-13
"""Corners nearer together than this, as a share of the largest coordinate, are one: some hundred times their error."""
EDGE_TURN = 1e-14
"""How much rounding turns the edge of two cells, in radians, for sites one radius of the cell apart: 90 u.

Edges that this could make longer or shorter than what counts are asked for at both ends.
"""
OVER_POLE = 1e-6
"""Degrees by which two longitudes half a turn apart may differ from that, to have the pole on the way between them.

Test: ``test_boxes_hold_their_cells``.
"""
EDGE_DOUBT = 1e-11
"""Share of a cell's size within which edges are in doubt: some thousand times what the cell kernel takes for rounding.

Those are decided by longer arithmetic. Test: ``test_worlds_that_once_had_other_neighbours_in_several_partitions``.
"""
ROUGH_CHORD2 = 1e-24
"""Squared chord, 6 micrometres, up to which the rounding of unit vectors shows in cells."""
NEARLY_AS_NEAR = 1.0 + 1e-9
"""Times which a squared distance may be what it is compared with, so that rounding drops no object."""
