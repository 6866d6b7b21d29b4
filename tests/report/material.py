"""Analyses to render: recorded samples, drawn loops, and a recording full of hostile names."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any

from gaptrace.compare.compare import FORCE, CompareOptions, compare
from gaptrace.compare.result import Comparison
from gaptrace.measure.analyze import analyze
from gaptrace.measure.result import Analysis
from gaptrace.reading.loading import load
from gaptrace.reading.manifest import Manifest
from gaptrace.runs.run import CellResult, RunAnalysis
from gaptrace.trace import RunInfo, Trace
from tests.builders import Event, decode_events, kernel, launch, mark, op, trace_of

SAMPLES = Path(__file__).parents[2] / "sample_traces"
CLOSING = "</script><img src=x onerror=alert(1)>"
REVERSED = "gpj\u202egnp.kernel"
NUL = "a\x00b\x1b[31mc\u2028d"
MENTION = "@everyone #1 [x](http://example.com) | `code` <b>*bold*</b> ~~s~~"
SURROGATE = "half\ud800pair"
HOSTILE = (CLOSING, REVERSED, NUL, MENTION, SURROGATE, "<!--", "]]>", "${1}", "k" * 100_000)


@cache
def sample(mode: str) -> Analysis:
    """A recorded decode loop: `eager`, `compiled` or `graph`."""
    return analyze(load(SAMPLES / f"small_decoder_{mode}.json.gz"))


def with_manifest(trace: Trace, data: dict[str, Any]) -> Trace:
    """The trace as if it lay in a run folder with this manifest."""
    return dataclasses.replace(trace, run=RunInfo("/home/jane/runs/secret/eager/1", data))


PERSONAL: dict[str, Any] = {
    "schema": "gaptrace.run/1",
    "name": "decoder",
    "label": "Llama-style decoder",
    "mode": "eager",
    "step": {"tokens": 1, "batch": 1},
    "unprofiled": {"median_ns": 60_000},
    "issue_ns": 40_000,
    "script": {
        "path": "/home/jane/secret/script.py",
        "argv": ["--token", "hunter2", "x" * 100_000],
        "python": ["/home/jane/venv/bin/python"],
        "git": {"commit": "abc123", "branch": "topic"},
    },
    "host": {"name": "janes-machine", "user": "jane"},
    "env": {"CUDA_VISIBLE_DEVICES": "0"},
    "versions": {"torch": "2.11.0"},
}


@cache
def personal() -> Analysis:
    """A drawn loop with a manifest that names a person, a host, paths and 100 kB of arguments."""
    return analyze(with_manifest(trace_of(*decode_events(steps=8)), PERSONAL))


@cache
def drawn(**options: Any) -> Analysis:
    """A drawn loop of equal steps."""
    return analyze(trace_of(*decode_events(**options)))


@cache
def hostile() -> Analysis:
    """Eight steps whose kernels, ops, calls and marks are named to break a page."""
    events: list[Event] = []
    corr, at = 1, 0
    for step in range(8):
        inside: list[Event] = []
        begin = at
        for name in HOSTILE:
            inside += [
                op(name, at=at + 1_000, dur=2_000),
                launch(at=at + 1_500, dur=1_000, corr=corr),
                kernel(name, at=at + 3_000, dur=2_000, corr=corr),
            ]
            corr, at = corr + 1, at + 5_000
        events += [mark(f"gaptrace.step#{step}", at=begin, dur=at - begin), *inside]
        at += 5_000
    data = {**PERSONAL, "name": CLOSING, "label": f"{REVERSED}{CLOSING}", "unprofiled": None}
    return analyze(with_manifest(trace_of(*events), data))


@cache
def run() -> RunAnalysis:
    """Three recorded modes as one run, and a fourth that could not be captured."""
    cells = [
        CellResult(mode, 1, f"runs/x/{mode}/1", "ok", "", Manifest(None), sample(name))
        for mode, name in (("eager", "eager"), ("compiled", "compiled"), ("graph", "graph"))
    ]
    reason = "step.pos moved between steps"
    cells.append(
        CellResult("compiled-graph", 1, "runs/x/cg/1", "mode_failed", reason, Manifest(None), None)
    )
    return RunAnalysis("small_decoder", "runs/x", tuple(cells))


@cache
def comparison() -> Comparison:
    """The eager sample against the compiled one."""
    options = CompareOptions(unlike=FORCE, resamples=200)
    return compare([sample("eager"), sample("compiled")], options)


@cache
def two_pairs() -> Comparison:
    """The eager sample against two others."""
    options = CompareOptions(unlike=FORCE, resamples=200)
    return compare([sample("eager"), sample("compiled"), sample("graph")], options)
