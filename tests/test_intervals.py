"""Interval algebra, instant by instant: each result is what counting single instants gives."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gaptrace import intervals as iv

END = 40
instants = st.integers(0, END)
pairs = st.lists(st.tuples(instants, instants).map(sorted), max_size=12)


def arrays(found: list[list[int]]) -> tuple[iv.Ints, iv.Ints]:
    columns = np.array(found, np.int64).reshape(-1, 2)
    return columns[:, 0].copy(), columns[:, 1].copy()


def covered(start: iv.Ints, end: iv.Ints) -> set[int]:
    return {i for lo, hi in zip(start.tolist(), end.tolist(), strict=True) for i in range(lo, hi)}


@given(pairs)
def test_a_union_covers_the_same_in_order_and_without_touching(found: list[list[int]]) -> None:
    union = iv.union(*arrays(found))
    assert covered(*union) == covered(*arrays(found))
    assert (union.start < union.end).all()
    assert (union.end[:-1] < union.start[1:]).all()


@given(pairs, st.lists(st.integers(-5, END + 5)))
def test_covered_before_any_points(found: list[list[int]], points: list[int]) -> None:
    union = iv.union(*arrays(found))
    inside = covered(*union)
    got = iv.covered_before(union, np.array(points, np.int64))
    assert got.tolist() == [sum(i < point for i in inside) for point in points]


@given(pairs, pairs)
def test_overlap_with_any_windows(found: list[list[int]], windows: list[list[int]]) -> None:
    union, (lo, hi) = iv.union(*arrays(found)), arrays(windows)
    inside = covered(*union)
    expected = [len(inside & set(range(a, b))) for a, b in windows]
    assert iv.overlap_with(union, lo, hi).tolist() == expected


@given(pairs, st.lists(instants, min_size=1).map(sorted))
def test_overlap_with_windows_that_tile(found: list[list[int]], edges: list[int]) -> None:
    union = iv.union(*arrays(found))
    inside = covered(*union)
    at = np.array(edges, np.int64)
    expected = [len(inside & set(range(a, b))) for a, b in pairwise(edges)]
    assert iv.overlap_with(union, at[:-1], at[1:]).tolist() == expected


@given(st.lists(instants).map(sorted), st.lists(instants))
def test_the_interval_that_holds_an_instant(edges: list[int], points: list[int]) -> None:
    at = np.array(edges, np.int64)
    start, end = at[:-1:2], at[1::2]
    got = iv.holding(start, end, np.array(points, np.int64)).tolist()
    within = [[i for i in range(end.size) if start[i] <= p < end[i]] for p in points]
    assert got == [found[0] if found else -1 for found in within]


def owners(segments: iv.Segments) -> dict[int, int]:
    return {
        i: owner
        for lo, hi, owner in zip(*(part.tolist() for part in segments), strict=True)
        for i in range(lo, hi)
    }


def latest(found: list[list[int]]) -> dict[int, int]:
    """At each covered instant the interval that started last; of those the shortest, then last."""
    return {
        i: max(
            (start, -end, index) for index, (start, end) in enumerate(found) if start <= i < end
        )[2]
        for i in covered(*arrays(found))
    }


@given(pairs)
def test_innermost_of_any_intervals(found: list[list[int]]) -> None:
    assert owners(iv.innermost(*arrays(found))) == latest(found)


@st.composite
def nested(draw: st.DrawFn, lo: int = 0, hi: int = 4 * END) -> list[list[int]]:
    """Intervals with different boundaries that nest properly, parents before their children."""
    edges = sorted(draw(st.sets(st.integers(lo, hi), max_size=6)))
    found = []
    for a, b in zip(edges[::2], edges[1::2], strict=False):
        found.append([a, b])
        if b - a > 3:
            found += draw(nested(a + 1, b - 1))
    return found


@given(nested())
def test_innermost_of_nested_intervals(found: list[list[int]]) -> None:
    assert owners(iv.innermost(*arrays(found))) == latest(found)


def test_innermost_returns_to_the_outer_interval_at_every_depth() -> None:
    segments = iv.innermost(*arrays([[0, 90], [10, 40], [20, 30], [50, 80], [60, 70]]))
    assert segments.start.tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    assert segments.owner.tolist() == [0, 1, 2, 1, 0, 3, 4, 3, 0]
    assert segments.end.tolist() == [10, 20, 30, 40, 50, 60, 70, 80, 90]


@given(st.lists(st.integers(-5, 5)))
def test_distinct(values: list[int]) -> None:
    assert iv.distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
