"""Decode scripts recorded without a mark, against their own count of tokens and their own clock.

GAPTRACE_WILD names a folder with the traces and truth.json of collectors/workloads/record_wild.py.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaptrace.analysis import Analysis, analyze
from gaptrace.measure.tokens import ASSUMED
from gaptrace.reading.loading import load
from gaptrace.trace import Ints

WILD = Path(os.environ.get("GAPTRACE_WILD", "/absent"))
TRUTH = WILD / "truth.json"
WITHIN = 0.02
# Iterations of which some take so much longer than others are not equal.
UNEQUAL = 1.5

pytestmark = pytest.mark.corpus


@dataclass(frozen=True)
class Recorded:
    """What a script knew of its own trace, and what gaptrace finds in it.

    ticks: ns of the trace at which the script's clock ticked, once an iteration.
    """

    truth: dict[str, Any]
    analysis: Analysis
    ticks: Ints

    @property
    def starts(self) -> Ints:
        """Where the host windows of the decode steps begin, and where the last of them ends."""
        steps = self.analysis.step_table
        assert steps is not None
        decode = np.array([phase == "decode" for phase in steps.phase], np.bool_)
        assert decode.any(), steps.kind.why
        where = np.flatnonzero(decode)
        assert (np.diff(where) == 1).all(), "decode steps follow each other"
        return np.append(steps.host_start[decode], steps.host_end[where[-1]])

    @property
    def complete(self) -> Ints:
        """Indices of the decode steps that the median is of."""
        steps = self.analysis.step_table
        assert steps is not None
        return np.flatnonzero(steps.counted)

    def own_ns(self) -> Ints:
        """Ns from tick to tick over the iterations that are those steps.

        A tick stands somewhere in each iteration, so iterations are counted from tick to tick and
        steps from first op to first op: the first tick in or after the first step begins the
        first of as many. Others, such as the first ones of a recording, take other times.
        """
        steps = self.analysis.step_table
        assert steps is not None
        begin = int(np.searchsorted(self.ticks, steps.host_start[self.complete[0]]))
        # The model that checks ticks after the drafts, and the last iteration may have none.
        count = self.complete.size - int(self.truth["speculation"])
        return np.diff(self.ticks)[begin : begin + count]

    def expected_ns(self, found_ns: float) -> float:
        """The median ns of an iteration by the script's clock.

        Where the script never waits for the GPU either the host sets the pace, and the ticks tell
        it, or the GPU does, and only the end of all work tells: then the one closer to `found_ns`.
        """
        own = np.sort(self.own_ns())
        median = [float(own[(own.size - 1) // 2])]
        if not self.truth["blocks"]:
            median.append(self.truth["profiled_to_end_s"] * 1e9)
        return min(median, key=lambda ns: abs(ns - found_ns))


def scripts() -> list[dict[str, Any]]:
    if not TRUTH.exists():
        return []
    found: list[dict[str, Any]] = json.loads(TRUTH.read_text())["scripts"]
    return found


SCRIPTS = {row["script"]: row for row in scripts()}
EACH = sorted(SCRIPTS)
SPECULATE = [name for name in EACH if SCRIPTS[name]["speculation"]]
PLAIN = [name for name in EACH if name not in SPECULATE]


@cache
def recorded(name: str) -> Recorded:
    truth = SCRIPTS[name]
    trace = load(WILD / truth["file"])
    began = truth["began_epoch_ns"] - int(trace.metadata["baseTimeNanoseconds"]) - trace.origin_ns
    ticks = np.array([began + tick for tick in truth["ticks_ns"]], np.int64)
    return Recorded(truth, analyze(trace), ticks)


def test_the_folder_holds_traces() -> None:
    if not WILD.exists():
        pytest.skip("GAPTRACE_WILD names no folder of record_wild.py")
    assert EACH


@pytest.mark.parametrize("name", EACH)
def test_the_steps_are_its_iterations(name: str) -> None:
    """As many as there were but for the first and the last, and one tick of its clock in each."""
    one = recorded(name)
    assert one.analysis.headline.kind == "decode"
    count, iterations = one.starts.size - 1, one.truth["decode_iterations"]
    # A prefill of a single token does what decode does.
    alike = 1 if one.truth["script"] == "hf_whisper" else 0
    assert iterations - 2 <= count <= iterations + alike
    begin = np.searchsorted(one.ticks, one.starts)
    # Nothing ends the last step but its last launch, and a tick may come after it.
    assert np.diff(begin)[:-1].tolist() == [1] * (count - 1)


@pytest.mark.parametrize("name", EACH)
def test_no_step_reads_the_prompt(name: str) -> None:
    """The prompt has been read when the clock first ticks: no decode step begins long before."""
    one = recorded(name)
    if one.truth["prefills"] == 0 or one.truth["script"] == "hf_whisper":
        return
    margin = 0.5 * one.truth["profiled_s"] * 1e9
    assert one.starts[0] > one.ticks[0] - margin


@pytest.mark.parametrize("name", EACH)
def test_the_steps_take_as_long_as_its_own_clock_says(name: str) -> None:
    """All complete steps together, from first op to first op, against the clock's elapsed time."""
    one = recorded(name)
    steps = one.analysis.step_table
    assert steps is not None
    own = one.own_ns()
    found = steps.period_ns[one.complete][: own.size].mean()
    # A host that runs ahead of the GPU and drops back takes other times than the GPU does.
    within = WITHIN if one.truth["blocks"] else 2 * WITHIN
    assert found == pytest.approx(own.mean(), rel=within)


@pytest.mark.parametrize("name", EACH)
def test_the_period_is_that_of_its_own_clock(name: str) -> None:
    """The median, unless iterations differ so much that it hangs on where each is cut."""
    one = recorded(name)
    found = one.analysis.headline.steps["period_ns"].median
    assert found is not None, one.analysis.quality.reasons
    low, high = np.quantile(one.own_ns(), (0.1, 0.9), method="nearest")
    within = WITHIN if high < UNEQUAL * low else 2 * WITHIN
    assert found == pytest.approx(one.expected_ns(found), rel=within)


@pytest.mark.parametrize("name", PLAIN)
def test_a_step_makes_one_token_of_each_sequence(name: str) -> None:
    """Beams are not sequences. What the trace does not tell is said to be assumed."""
    one = recorded(name)
    head, sequences = one.analysis.headline, one.truth["sequences"]
    assumed = head.tokens_per_step == 1 and head.tokens_source == ASSUMED
    assert head.tokens_per_step == sequences or assumed


@pytest.mark.parametrize("name", SPECULATE)
def test_tokens_of_an_iteration_with_drafts_are_not_one_wrong_number(name: str) -> None:
    """The rate is withheld, or a range that holds the truth, or the truth."""
    one = recorded(name)
    rate = one.analysis.headline.rate
    made, ticks = sum(one.truth["tokens_per_iteration"][:-1]), one.ticks
    true = made / ((ticks[-1] - ticks[1]) / 1e9)
    if rate.tokens_per_s_range is not None:
        low, high = rate.tokens_per_s_range
        assert (low or 0) * (1 - WITHIN) <= true <= (high or np.inf) * (1 + WITHIN)
    if rate.tokens_per_s is not None:
        assert rate.tokens_per_s == pytest.approx(true, rel=0.05)
