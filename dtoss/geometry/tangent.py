"""The tangent plane at a site: the basis that spans it, and where others lie as seen from there."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel
from dtoss.geometry.position import SPHERE


@kernel
def tangent(x, y, z, basis):
    """Fill ``basis[0:6]`` with two unit vectors that span the tangent plane of the sphere at (x, y, z)."""
    sign = 1.0 if z >= 0 else -1.0
    a = -1.0 / (sign + z)
    b = x * y * a
    basis[0], basis[1], basis[2] = 1.0 + sign * x * x * a, sign * b, -sign * x
    basis[SPHERE], basis[SPHERE + 1], basis[SPHERE + 2] = b, sign + y * y * a, -y


@kernel
def in_plane(a, b, c, basis):
    """Return the components of (a, b, c), numbers or lanes, along the two vectors of a basis."""
    return (
        a * basis[0] + b * basis[1] + c * basis[2],
        a * basis[SPHERE] + b * basis[SPHERE + 1] + c * basis[SPHERE + 2],
    )


@kernel
def in_space(u, v, basis):
    """Return the vector with the components u and v, numbers or lanes, along the two vectors of a basis."""
    return (
        u * basis[0] + v * basis[SPHERE],
        u * basis[1] + v * basis[SPHERE + 1],
        u * basis[2] + v * basis[SPHERE + 2],
    )


@kernel
def seen_from(site, basis, positions, c):
    """Return where site c lies as seen from a place, in the tangent plane, and the squared distance."""
    at = c * site.dimension
    px, py = positions[at] - site.x, positions[at + 1] - site.y
    distance2 = px * px + py * py
    if site.dimension == SPHERE:
        d = positions[at + 2] - site.z
        px, py = in_plane(px, py, d, basis)
        distance2 += d * d
    return px, py, distance2


@kernel
def offset_of(site, positions, c):
    """Return what leads from a place on the sphere to site c."""
    return (
        positions[SPHERE * c] - site.x,
        positions[SPHERE * c + 1] - site.y,
        positions[SPHERE * c + 2] - site.z,
    )
