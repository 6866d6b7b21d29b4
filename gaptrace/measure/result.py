"""One measured recording: the trace, its arrays, and the figures derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gaptrace.measure.devices import Device
from gaptrace.measure.gapwork import NO_WORK, GapWork, gap_work
from gaptrace.measure.gemm import Products
from gaptrace.measure.headline import Headline
from gaptrace.measure.hostparts import PartTimes
from gaptrace.measure.quality import Quality
from gaptrace.measure.steps import Steps
from gaptrace.measure.threads import Activity
from gaptrace.measure.what_if import StepModel
from gaptrace.reading.manifest import Manifest
from gaptrace.results import analysis as r
from gaptrace.trace import Trace


@dataclass(frozen=True, eq=False)
class Analysis:
    """One measured recording: the trace, what was derived from it, arrays shared and not copied.

    device: the device that step figures are for, None where no GPU op was recorded. step_model:
    None where a figure that it needs is withheld. piecewise: None where the step replays at most
    one graph. predicted: the step without the profiler.
    """

    trace: Trace
    manifest: Manifest
    source: r.Source
    quality: Quality
    devices: tuple[Device, ...]
    device: Device | None
    step_table: Steps | None
    headline: Headline
    kernels: r.Kernels
    host: r.Host
    ceilings: r.Ceilings
    step_model: StepModel | None
    products: Products
    power: r.Power | None
    threads: Mapping[int, Activity]
    piecewise: r.Piecewise | None = None
    part_times: PartTimes | None = None
    phases: tuple[r.Phase, ...] = ()
    predicted: r.PredictedStep = field(default_factory=r.PredictedStep)

    @cached_property
    def gap_work(self) -> GapWork:
        """What the launching threads did in the device's gaps."""
        return (
            NO_WORK if self.device is None else gap_work(self.trace, self.device.gaps, self.threads)
        )

    @property
    def path(self) -> str:
        """What to name to get this analysis again: the folder of a cell, else the file."""
        return self.source.path if self.trace.run is None else self.trace.run.path

    @property
    def what_ifs(self) -> tuple[r.WhatIf, ...]:
        """The step under one change at a time; empty without a step model."""
        return () if self.step_model is None else self.step_model.what_ifs()
