"""Student's t against tables and against the textbook special cases."""

from __future__ import annotations

import math

import pytest

from gaptrace.compare.student import quantile, two_sided

# Two-sided 5 % and 1 % points as every statistics table prints them.
TABLE = [
    (1, 12.706, 63.657),
    (2, 4.303, 9.925),
    (3, 3.182, 5.841),
    (4, 2.776, 4.604),
    (5, 2.571, 4.032),
    (10, 2.228, 3.169),
    (30, 2.042, 2.750),
    (120, 1.980, 2.617),
    (1000, 1.962, 2.581),
    (100_000, 1.960, 2.576),
]


@pytest.mark.parametrize(("df", "five", "one"), TABLE)
def test_quantiles_are_those_of_the_tables(df: int, five: float, one: float) -> None:
    assert quantile(0.05, df) == pytest.approx(five, abs=6e-4)
    assert quantile(0.01, df) == pytest.approx(one, abs=6e-4)


def test_one_degree_of_freedom_is_the_cauchy_distribution() -> None:
    for t in (0.1, 1.0, 7.0):
        assert two_sided(t, 1) == pytest.approx(1 - 2 / math.pi * math.atan(t), abs=1e-12)


def test_two_degrees_of_freedom_have_a_closed_form() -> None:
    for t in (0.1, 1.0, 7.0):
        assert two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)


def test_the_series_and_the_approximation_meet() -> None:
    for t in (0.5, 2.0, 4.0):
        assert two_sided(t, 199) == pytest.approx(two_sided(t, 200), abs=2e-5)


def test_the_ends() -> None:
    assert two_sided(0.0, 5) == 1.0
    assert two_sided(math.inf, 5) == 0.0
    assert two_sided(-2.776, 4) == two_sided(2.776, 4)
    assert quantile(0.0, 5) == math.inf
    assert quantile(1.0, 5) == pytest.approx(0.0, abs=1e-6)
