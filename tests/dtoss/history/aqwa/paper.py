"""The paper's method again, slow and obvious: points and questions are kept and counted one by one."""

from __future__ import annotations

import math

from dtoss.history.aqwa.aqwa_grid import Rectangle
from dtoss.history.aqwa.aqwa_partitions import halves


def overlap(a: Rectangle, b: Rectangle) -> bool:
    """Whether two rectangles share a cell."""
    rows = range(max(a.top, b.top), min(a.bottom, b.bottom))
    columns = range(max(a.left, b.left), min(a.right, b.right))
    return len(rows) > 0 and len(columns) > 0


def points_in(part: Rectangle, cells: list[tuple[int, int]]) -> int:
    """Return how many of the points, given by their cells, a rectangle has."""
    return sum(part.top <= row < part.bottom and part.left <= column < part.right for row, column in cells)


def weight(number: int, asked: int, fade_every: int, fading: float) -> float:
    """Return what the question of a number, from 0, counts when so many were asked: the closed form of fading."""
    cycles = asked // fade_every - number // fade_every
    return 1.0 if cycles <= 0 else fading ** -(cycles - 1)


def overlapping(part: Rectangle, questions: list[Rectangle], fade_every: int, fading: float) -> float:
    """Return the weight of the questions that overlap a rectangle."""
    asked = len(questions)
    return sum(weight(number, asked, fade_every, fading) for number, box in enumerate(questions) if overlap(part, box))


def cost(part: Rectangle, cells: list[tuple[int, int]], questions: list[Rectangle], t: int, c: float) -> float:
    """Return (1) of one partition."""
    return points_in(part, cells) * overlapping(part, questions, t, c)


def looked_at(part: Rectangle, across_rows: bool, of: object) -> list[int]:
    """Return the lines of the binary search of 4.1, by the costs that a function gives of a part."""
    low, high = (part.top, part.bottom) if across_rows else (part.left, part.right)
    seen = []
    while high - low > 1:
        line = (low + high) // 2
        seen.append(line)
        first, second = (of(half) for half in halves(part, across_rows, line))
        if first == second:
            break
        if first > second:
            high = line
        else:
            low = line
    return seen


def saved_by(part: Rectangle, across_rows: bool, line: int, of: object) -> float:
    """Return (2)."""
    first, second = halves(part, across_rows, line)
    return of(part) - of(first) - of(second)


def value_of(
    part: Rectangle, cells: list[tuple[int, int]], lines: list[tuple[bool, int]], of: object, least: int
) -> float | None:
    """Return the value of the best of some lines by (2) to (4); None where none leaves enough."""
    found = [
        saved_by(part, across_rows, line, of)
        for across_rows, line in lines
        if all(points_in(half, cells) > least for half in halves(part, across_rows, line))
    ]
    return max(found) - 2 * points_in(part, cells) if found else None


def distances(grid, row: int, column: int, place: tuple[float, float]) -> tuple[float, float]:
    """Return the least and the greatest distance from a place to a cell."""
    corners = [(grid.x[j], grid.y[i]) for i in (row, row + 1) for j in (column, column + 1)]
    near = (min(max(place[0], grid.x[column]), grid.x[column + 1]), min(max(place[1], grid.y[row]), grid.y[row + 1]))
    return math.dist(place, near), max(math.dist(place, corner) for corner in corners)


def nearest_cells(grid, cells: list[tuple[int, int]], place: tuple[float, float], k: int) -> Rectangle:
    """Return the bounding rectangle of section 5, by all cells."""
    if len(cells) < k:
        return grid.everything
    order = sorted(
        (*distances(grid, row, column, place), row, column)
        for row in range(grid.rows)
        for column in range(grid.columns)
    )
    order.sort(key=lambda each: (each[0], each[2], each[3]))
    counted, most = 0, 0.0
    for _, greatest, row, column in order:
        counted += cells.count((row, column))
        most = max(most, greatest)
        if counted >= k:
            break
    chosen = [(row, column) for least, _, row, column in order if least <= most]
    rows, columns = [row for row, _ in chosen], [column for _, column in chosen]
    return Rectangle(min(rows), min(columns), max(rows) + 1, max(columns) + 1)
