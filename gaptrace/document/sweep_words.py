"""What a sweep says in sentences, and the words for its points."""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from gaptrace import units
from gaptrace.quantity import TOKENS_PER_S, Quantity
from gaptrace.results.run import SweepResult, SweepRow


def said(sweep: SweepResult) -> SweepResult:
    """The sweep with its sentence."""
    return replace(sweep, sentence=sentence(sweep))


def sentence(sweep: SweepResult) -> str:
    """The answer: the fastest mode at the first and the last point that was measured."""
    rows = [[r for r in sweep.rows if r.point == p.point and r.tokens_per_s] for p in sweep.points]
    known = [point_rows for point_rows in rows if point_rows]
    if not known:
        return f"{sweep.name}: no mode of this sweep could be measured."
    ends = known[:1] if len(known) == 1 else [known[0], known[-1]]
    return f"{sweep.name}: {'; '.join(_fastest(rows) for rows in ends)}."


class Sized(Protocol):
    """What has a batch size and a length, or None where that was not varied."""

    @property
    def batch(self) -> int | None:
        """Sequences in a step."""

    @property
    def length(self) -> int | None:
        """Tokens before the first step."""


def point_words(point: Sized) -> str:
    """`batch 8`, `length 128` or both."""
    parts = (("batch", point.batch), ("length", point.length))
    return ", ".join(f"{word} {units.count(n)}" for word, n in parts if n is not None)


def _fastest(rows: list[SweepRow]) -> str:
    best = max(rows, key=lambda row: row.tokens_per_s or 0)
    rate = units.text(Quantity(best.tokens_per_s, TOKENS_PER_S))
    text = f"at {point_words(best)} {best.mode} is fastest, {rate}"
    if best.times_eager and best.mode != "eager":
        text += f", {units.digits(best.times_eager, 2)} times as fast as eager"
    return f"{text} ({best.binding}-bound)" if best.binding else text
