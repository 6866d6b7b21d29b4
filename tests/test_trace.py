"""What a Trace says about its rows and names, and which call launched which op."""

from __future__ import annotations

import numpy as np
import pytest

from gaptrace.findings.evidence import EVIDENCE_SHOWN, largest
from gaptrace.measure.links import link, rows_named
from gaptrace.trace import Cat
from tests.builders import kernel, launch, mark, memcpy, op, trace_of


def test_rows_of_kinds_are_in_file_order_and_cannot_be_changed() -> None:
    trace = trace_of(op("a", at=0, dur=1), launch(at=2, dur=1, corr=1), mark("m", at=5, dur=1))
    kinds = [Cat(code) for code in trace.cat.tolist()]
    for cats in ((Cat.CPU_OP,), (Cat.ANNOTATION, Cat.CPU_OP), (Cat.PYTHON,), tuple(Cat)):
        rows = trace.rows_of(*cats)
        assert rows.tolist() == [row for row, kind in enumerate(kinds) if kind in cats]
        assert trace.rows_of(*cats) is rows
        with pytest.raises(ValueError, match="read-only"):
            rows[:] = 0


def test_rows_by_name_ask_each_name_of_the_kinds_once() -> None:
    trace = trace_of(
        op("a", at=0, dur=1), mark("a", at=2, dur=1), op("b", at=4, dur=1), op("a", at=6, dur=1)
    )
    asked: list[str] = []

    def starts_with_a(name: str) -> bool:
        asked.append(name)
        return name == "a"

    rows = rows_named(trace, starts_with_a, Cat.CPU_OP)
    assert [trace.start[row].item() - trace.start[rows[0]].item() for row in rows] == [0, 6]
    assert sorted(asked) == ["a", "b"]
    assert rows_named(trace, lambda _: True, Cat.CPU_OP).size == 3
    assert rows_named(trace, lambda _: False, Cat.CPU_OP, Cat.ANNOTATION).size == 0
    assert [trace.names[code] for code in trace.names_of(Cat.ANNOTATION)] == ["a"]


def test_a_launch_is_the_first_call_of_its_rank_with_the_correlation() -> None:
    trace = trace_of(
        launch(at=0, dur=1, corr=7, rank="TP01"),
        launch(at=1, dur=1, corr=9, rank="TP00"),
        launch(at=2, dur=1, corr=7, rank="TP00"),
        launch(at=3, dur=1, corr=7, rank="TP00"),
        kernel("k", at=10, dur=1, corr=7, rank="TP00"),
        kernel("k", at=12, dur=1, corr=7, rank="TP01"),
        kernel("k", at=14, dur=1, corr=8, rank="TP00"),
        memcpy(at=16, dur=1, corr=0, rank="TP00"),
        kernel("k", at=18, dur=1, corr=9, rank="TP01"),
    )
    calls = trace.rows_of(Cat.RUNTIME)
    found = link(trace)
    assert found.launch.tolist() == [calls[2], calls[0], -1, -1, -1]
    assert found.calls.tolist() == [calls[0], calls[2]]


def test_the_largest_come_first_and_of_equals_the_earliest() -> None:
    weight = np.array([3, 9, 3, 9, 3, 3, 3, 1])
    start = np.array([70, 60, 50, 40, 30, 20, 10, 0])
    assert largest(weight, start).tolist() == [3, 1, 6, 5, 4]
    assert largest(weight[:3], start[:3]).tolist() == [1, 2, 0]
    random = np.random.default_rng(1)
    for _ in range(50):
        weight, start = random.integers(0, 9, 40), random.permutation(40)
        everything = np.lexsort((start, -weight))
        assert largest(weight, start).tolist() == everything[:EVIDENCE_SHOWN].tolist()
