"""Idle time and kernel counts against HolisticTraceAnalysis, its rounding switched off."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gaptrace.measure.analyze import measure
from gaptrace.reading.loading import load

pytest.importorskip("hta", reason="the hta extra is not installed")

SAMPLES = sorted((Path(__file__).parents[1] / "sample_traces").glob("**/*.json.gz"))
SAMPLES = [p for p in SAMPLES if "execution_trace" not in p.name]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: str(p.relative_to(p.parents[1])))
def test_idle_and_kernels_agree_with_hta(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTA computes idle in float microseconds over the same ops; it must round to the same ns.

    The trace is taken before HTA drops its last iteration, and its own merge does the arithmetic.
    """
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    from hta.analyzers.breakdown_analysis import BreakdownAnalysis
    from hta.common.trace import Trace as HtaTrace

    trace = HtaTrace(trace_files={0: os.fspath(path)}, trace_dir="")
    try:
        trace.parse_traces(use_multiprocessing=False)
    except TypeError as error:
        # HTA 0.5.0 under pandas 3 puts row numbers into a column that it narrowed to int8 before.
        if "for dtype 'int8'" not in str(error) or path.parent.name == "sample_traces":
            raise
        pytest.skip(f"HTA cannot read this trace here: {error}")
    table = trace.get_trace(0)
    names = trace.symbol_table.get_sym_table()
    device_rows = table[table["stream"].ge(0) & table["cat"].map(lambda c: names[c] in GPU)]
    idle_us, span_us = BreakdownAnalysis._get_idle_time_for_kernels(device_rows.copy())
    kernels = int(device_rows["cat"].map(lambda c: names[c] == "kernel").sum())

    measured = measure(load(path)).device
    assert measured is not None
    device = measured.figures
    assert device.kernels == kernels
    # HTA keeps `ts` in doubles near 5e12 us, a nanosecond apart. An idle gap lies between two, one
    # with a duration added: three roundings of half that distance.
    apart = np.spacing(device_rows["ts"].max()) * 1000
    assert abs(device.span_ns - span_us * 1000) <= 2
    assert abs(device.idle_ns - idle_us * 1000) <= 2 + 1.5 * apart * device.gpu_ops


GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
