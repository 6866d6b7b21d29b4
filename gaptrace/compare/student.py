"""Student's t distribution for whole degrees of freedom: its tails and its quantiles."""

from __future__ import annotations

import math


def two_sided(t: float, df: int) -> float:
    """Probability that |T| exceeds `t`, for `df` >= 1 degrees of freedom.

    The finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4, in theta = atan(t / sqrt(df)).
    From 200 degrees on the normal distribution with Hill's correction, whose error is below 1e-6.
    """
    t = abs(t)
    if math.isinf(t):
        return 0.0
    if df >= 200:
        return math.erfc(_normal_deviate(t, df) / math.sqrt(2))
    theta = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    if df % 2:
        total, term = 0.0, cosine
        for k in range(1, (df - 1) // 2 + 1):
            total += term
            term *= cosine * cosine * (2 * k) / (2 * k + 1)
        inside = 2 / math.pi * (theta + sine * total)
    else:
        total, term = 0.0, 1.0
        for k in range(1, df // 2 + 1):
            total += term
            term *= cosine * cosine * (2 * k - 1) / (2 * k)
        inside = sine * total
    return min(1.0, max(0.0, 1.0 - inside))


def _normal_deviate(t: float, df: int) -> float:
    """The normal deviate with the tail of `t` (Hill 1970, first terms)."""
    a = df - 0.5
    b = 48 * a * a
    z = math.sqrt(a * math.log1p(t * t / df))
    return z + (z**3 + 3 * z) / b


def quantile(p: float, df: int) -> float:
    """The t that |T| exceeds with probability `p`, by bisection to 1e-9 of its size."""
    if p <= 0:
        return math.inf
    lo, hi = 0.0, 1.0
    while two_sided(hi, df) > p:
        lo, hi = hi, hi * 2
        if hi > 1e12:
            return math.inf
    while hi - lo > 1e-9 * hi:
        middle = (lo + hi) / 2
        if two_sided(middle, df) > p:
            lo = middle
        else:
            hi = middle
    return hi
