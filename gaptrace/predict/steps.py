"""Predicted steps while they are computed: estimates with their ranges, and how they are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from gaptrace.measure.fusion_model import Estimate
from gaptrace.results.prediction import (
    CapturedParts,
    CapturedPerToken,
    Compile,
    CompiledFigures,
    CompiledRanges,
    Doubt,
    Loss,
    PairCost,
    Range,
    Variant,
)


@dataclass(frozen=True)
class CapturedStep:
    """A step replayed from one CUDA graph: busy + gaps between nodes + replay + memset nodes.

    already: the recording is captured; `step` then is what is left to win, None where nothing is.
    The four parts sum to `step.ns`. launches: launch calls per step that remain (the replay, and
    copies between host and device). source: where the constants are from.
    """

    already: bool
    step: Estimate | None
    busy_ns: float
    nodes: int
    kernels: int
    launches: int
    source: str
    gaps_ns: float = 0.0
    replay_ns: float = 0.0
    memset_ns: float = 0.0
    pairs: tuple[PairCost, ...] = ()
    note: str = ""

    def fields(self, tokens: float) -> dict[str, Any]:
        """What a `Capture` says of the step."""
        found: dict[str, Any] = {
            "already": self.already,
            "gaps_by_pair": self.pairs,
            "launches": self.launches,
            "nodes": self.nodes,
            "source": self.source,
            "note": self.note or None,
        }
        if self.step is None:
            return found
        idle = self.step.ns - self.busy_ns
        parts = (self.busy_ns, self.gaps_ns, self.replay_ns, self.memset_ns)
        return {
            **found,
            "predicted_step_ns": round(self.step.ns),
            "range_ns": range_of(self.step),
            "parts_ns": CapturedParts(*(round(ns) for ns in parts)),
            "idle_ns": round(idle),
            "per_token": CapturedPerToken(
                self.step.ns / tokens, idle / tokens, self.launches / tokens
            ),
        }


@dataclass(frozen=True)
class CompiledStep:
    """The step after torch.compile. already: the recording is compiled, so nothing is predicted.

    kernels: all kernels; generated: by Inductor; extern: library calls that stay. launches: launch
    calls. by_class: predicted busy ns by op class. launched, captured: step time. kernel_range,
    generated_range: the printed ranges. exact: from the real scheduler, else estimated from shapes.
    host: where the host time per launch is from; profiled: the profiler slowed it. source, note:
    where the prediction is from, and what to know about the torch version.
    """

    already: bool
    exact: bool
    source: str
    note: str
    kernels: int | None = None
    generated: int | None = None
    extern: int | None = None
    launches: int | None = None
    eager_kernels: int | None = None
    busy: Estimate | None = None
    by_class: Mapping[str, float] | None = None
    launched: Estimate | None = None
    captured: Estimate | None = None
    withheld: str = ""
    kernel_range: tuple[int, int] | None = None
    generated_range: tuple[int, int] | None = None
    doubts: tuple[Doubt, ...] = ()
    losses: tuple[Loss, ...] = ()
    what_ifs: tuple[Variant, ...] = ()
    host: str = ""
    profiled: bool = False
    torch: Mapping[str, Any] | None = None

    @property
    def field(self) -> Compile:
        """The step as plain data."""
        if self.already or self.kernels is None:
            return Compile(None, self.source or None, already=self.already, note=self.note)
        classes = self.by_class
        figures = CompiledFigures(
            kernels=self.kernels,
            generated=self.generated,
            extern=self.extern,
            launches=self.launches,
            busy_ns=ns_of(self.busy),
            busy_ns_by_class=None
            if classes is None
            else {k: round(ns) for k, ns in classes.items()},
            step_ns=ns_of(self.launched),
            captured_step_ns=ns_of(self.captured),
            range=CompiledRanges(
                self.kernel_range,
                self.generated_range,
                range_of(self.busy),
                range_of(self.launched),
                range_of(self.captured),
            ),
        )
        return Compile(
            predicted=figures,
            source=self.source,
            exact=self.exact,
            already=False,
            note=self.note,
            torch=dict(self.torch) if self.torch else None,
            eager_kernels=self.eager_kernels,
            doubts=self.doubts,
            losses=self.losses,
            launched_withheld=self.withheld or UNSET,
            what_ifs=self.what_ifs,
        )


def ns_of(estimate: Estimate | None) -> int | None:
    """The predicted time in whole ns."""
    return None if estimate is None else round(estimate.ns)


def range_of(estimate: Estimate | None) -> Range:
    """The printed range in whole ns."""
    return None if estimate is None else (round(estimate.low_ns), round(estimate.high_ns))
